"""The page asks for a key, and shows photos with it, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from server.backends import Backend
from tests.server.apps import make_key
from tests.server.fake import FakeSearcher
from tests.server.live import serving
from tests.server.pages import sign_in, visited

KEY = "Sign in with a key"


@pytest.fixture(scope="module")
def key(keys: Path) -> str:
    return make_key(keys)


@pytest.fixture(scope="module", params=["", "/photos"])
def address(photos: Path, keys: Path, key: str, request: pytest.FixtureRequest) -> Iterator[str]:
    sparta = Backend("sparta", FakeSearcher(), photos, ("red",))
    with serving(sparta, keys=keys, root_path=request.param) as address:
        yield address + request.param


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    with visited(browser, address) as page:
        yield page


def test_a_key_is_asked_for_and_shows_photos_until_signed_out(
    page: Page, address: str, key: str
) -> None:
    requested: list[str] = []
    page.on("request", lambda request: requested.append(request.url))
    page.goto(f"{address}/?q=red")
    expect(page.get_by_role("heading", name=KEY)).to_be_visible()
    expect(page.get_by_label("Key", exact=True)).to_be_focused()
    expect(page.locator("#q")).to_be_hidden()
    expect(page.get_by_role("button", name="Sign out")).to_be_hidden()
    sign_in(page, "wrong")
    expect(page.get_by_role("alert")).to_have_text("the key is unknown, or was revoked")
    sign_in(page, key)
    expect(page.locator(".card")).to_have_count(3)
    expect(page.get_by_role("heading", name=KEY)).to_be_hidden()
    for image in page.locator(".card img").all():
        expect(image).to_have_js_property("complete", True)
        assert image.evaluate("image => image.naturalWidth") > 0
    page.reload()
    expect(page.locator(".card")).to_have_count(3)
    assert page.evaluate("document.cookie") == ""
    assert page.evaluate("JSON.stringify({...localStorage, ...sessionStorage})") == "{}"
    assert not [url for url in requested if key in url or "wrong" in url]
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name=KEY)).to_be_visible()
    expect(page.locator(".card")).to_have_count(0)
    assert page.context.cookies() == []


def test_a_key_that_is_revoked_is_asked_for_again(page: Page, address: str, keys: Path) -> None:
    before = keys.read_bytes()
    page.goto(address + "/")
    sign_in(page, make_key(keys))
    expect(page.locator("#corpus")).to_have_text("5 photos")
    keys.write_bytes(before)
    page.locator("#q").fill("red")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name=KEY)).to_be_visible()
