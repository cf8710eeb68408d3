"""axe-core finds nothing to complain about on the page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from server.backends import Backend
from tests.server.fake import FakeDense, FakeSearcher
from tests.server.live import serving
from tests.server.pages import violations, visited


@pytest.fixture(scope="module")
def address(photos: Path) -> Iterator[str]:
    sparta = Backend("sparta", FakeSearcher(), photos, ("red", "blue green"))
    with serving(sparta, Backend("vse++", FakeDense(), photos)) as address:
        yield address


@pytest.fixture(params=["light", "dark"])
def page(browser: Browser, address: str, request: pytest.FixtureRequest) -> Iterator[Page]:
    with visited(browser, address, bypass_csp=True, color_scheme=request.param) as page:
        yield page


def test_every_state_of_the_page(page: Page) -> None:
    page.goto("/")
    expect(page.locator("#examples a").first).to_be_visible()
    assert violations(page) == []
    page.locator("#q").press_sequentially("red gr")
    expect(page.locator("#suggestions li").first).to_be_visible()
    assert violations(page) == []
    page.goto("/?q=red+blue&compare=vse%2B%2B")
    expect(page.locator(".card").nth(9)).to_be_visible()
    assert violations(page) == []
    page.goto("/?q=red+-green+zyzzyva")
    expect(page.locator(".card").first).to_be_visible()
    assert violations(page) == []
    page.locator(".opener").first.click()
    expect(page.get_by_role("dialog")).to_be_visible()
    assert violations(page) == []
    page.goto("/?q=red&k=5000")
    expect(page.get_by_role("alert")).to_be_visible()
    assert violations(page) == []
