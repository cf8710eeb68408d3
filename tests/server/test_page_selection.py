"""Selecting hits on the page, and deleting them, in a real browser."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.server.apps import make_key
from tests.server.drawings import index_drawings
from tests.server.pages import sign_in, violations, visited
from tests.server.served import served


@pytest.fixture
def page(browser: Browser, guarded: str, keys: Path) -> Iterator[Page]:
    """Five hits, signed in with a key for searching."""
    with visited(browser, guarded, bypass_csp=True) as page:
        page.goto("/?q=red+blue")
        sign_in(page, make_key(keys))
        expect(page.locator(".card")).to_have_count(5)
        yield page


def selected(page: Page) -> list[str]:
    return page.locator(".card:has(.select:checked) .rank").all_inner_texts()


def allow_writing(page: Page, key: str) -> None:
    page.get_by_label("Key for writing").fill(key)
    page.keyboard.press("Enter")


def test_hits_are_selected_with_the_mouse(page: Page) -> None:
    bar = page.get_by_role("region", name="Selected photos")
    expect(bar).to_be_hidden()
    page.locator(".card").nth(1).hover()
    page.get_by_label("Select photo 2").click()
    expect(bar.get_by_role("status")).to_have_text("1 selected")
    page.get_by_label("Select photo 4").click(modifiers=["Shift"])
    expect(bar.get_by_role("status")).to_have_text("3 selected")
    assert selected(page) == ["2", "3", "4"]
    page.get_by_label("Select photo 3").click()
    assert selected(page) == ["2", "4"]
    page.get_by_label("Select photo 1").click()
    page.get_by_label("Select photo 3").click(modifiers=["Shift"])
    assert selected(page) == ["1", "2", "3", "4"]
    bar.get_by_role("button", name="Clear").click()
    expect(bar).to_be_hidden()
    assert selected(page) == []


def test_hits_are_selected_with_the_keyboard(page: Page) -> None:
    page.locator(".opener").nth(1).focus()
    page.keyboard.press("x")
    assert selected(page) == ["2"]
    page.locator(".card").nth(3).locator(".chip").first.focus()
    page.keyboard.press("Shift+X")
    assert selected(page) == ["2", "3", "4"]
    page.keyboard.press("Control+x")
    assert selected(page) == ["2", "3", "4"]
    page.get_by_label("Select photo 3").focus()
    page.keyboard.press("Space")
    assert selected(page) == ["2", "4"]
    page.locator("#q").focus()
    page.keyboard.press("x")
    page.keyboard.press("Escape")
    assert selected(page) == ["2", "4"]
    page.locator(".opener").nth(0).press("Enter")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    assert selected(page) == ["2", "4"]
    page.keyboard.press("Escape")
    assert selected(page) == []


def test_another_search_selects_nothing(page: Page) -> None:
    page.locator(".opener").nth(0).press("x")
    page.locator("#q").fill("red")
    page.keyboard.press("Enter")
    expect(page.locator(".card")).to_have_count(3)
    assert selected(page) == []
    expect(page.get_by_role("region", name="Selected photos")).to_be_hidden()


def test_a_key_for_writing_is_asked_for_once(page: Page, keys: Path, write_key: str) -> None:
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.locator(".opener").nth(0).press("x")
    delete = page.get_by_role("button", name="Delete…")
    delete.press("Enter")
    dialog = page.get_by_role("dialog", name="Changing the index needs a key")
    expect(dialog.get_by_label("Key for writing")).to_be_focused()
    assert violations(page) == []
    allow_writing(page, "wrong")
    expect(dialog.get_by_role("alert")).to_have_text("the key is unknown, or was revoked")
    allow_writing(page, make_key(keys))
    expect(dialog.get_by_role("alert")).to_have_text("This key is for searching alone")
    assert violations(page) == []
    dialog.get_by_role("button", name="Cancel").click()
    expect(dialog).to_be_hidden()
    delete.click()
    expect(dialog.get_by_label("Key for writing")).to_have_value("")
    allow_writing(page, write_key)
    question = page.get_by_role("dialog", name="Delete 1 photo from the index?")
    expect(question.get_by_role("button", name="Cancel")).to_be_focused()
    assert violations(page) == []
    page.keyboard.press("Escape")
    expect(question).to_be_hidden()
    assert selected(page) == ["1"]
    delete.click()
    expect(question).to_be_visible()
    assert page.evaluate("document.cookie") == ""
    assert page.evaluate("JSON.stringify({...localStorage, ...sessionStorage})") == "{}"
    assert not [url for url in requests if "sparta_" in url or url.endswith("/delete")]


def test_a_failure_is_shown_and_the_selection_stays(page: Page, write_key: str) -> None:
    body = {"title": "Writing failed", "detail": "no space"}
    page.route("**/v1/images/delete", lambda route: route.fulfill(status=503, json=body))
    page.locator(".opener").nth(0).press("x")
    page.get_by_role("button", name="Delete…").click()
    allow_writing(page, write_key)
    page.get_by_role("button", name="Delete 1 photo").click()
    bar = page.get_by_role("region", name="Selected photos")
    expect(bar.get_by_role("alert")).to_have_text("Writing failed: no space")
    assert violations(page) == []
    assert selected(page) == ["1"]
    page.get_by_label("Select photo 2").click()
    expect(bar.get_by_role("alert")).to_be_hidden()


def test_selected_photos_are_deleted(
    browser: Browser, photos: Path, tmp_path: Path, keys: Path, write_key: str
) -> None:
    index = index_drawings(tmp_path / "index", photos)
    with served(index, "--keys", str(keys)) as (address, _):
        page = browser.new_page(base_url=address)
        page.goto("/?q=red+blue")
        sign_in(page, write_key)
        expect(page.locator("#corpus")).to_have_text("5 photos")
        page.locator(".opener").nth(1).press("x")
        page.locator(".opener").nth(2).press("Shift+X")
        gone = page.locator(".card .name").all_inner_texts()[1:3]
        sent: list[str | None] = []
        page.on("request", lambda r: sent.append(r.post_data) if "/delete" in r.url else None)
        page.get_by_role("button", name="Delete…").click()
        page.get_by_role("button", name="Delete 2 photos").click()
        # The process that writes starts first.
        expect(page.locator(".card")).to_have_count(3, timeout=60_000)
        assert [json.loads(body or "") for body in sent] == [{"ids": gone}]
        expect(page.locator(".status")).to_contain_text("3 photos")
        expect(page.locator("#corpus")).to_have_text("3 photos")
        expect(page.get_by_role("region", name="Selected photos")).to_be_hidden()
        expect(page.locator(".opener").first).to_be_focused()
        page.locator(".opener").nth(1).click()
        expect(page.get_by_role("dialog").locator("h2")).to_contain_text(re.compile("^4 "))
        page.reload()
        expect(page.locator(".card")).to_have_count(3)
        assert not set(gone) & set(page.locator(".card .name").all_inner_texts())
        page.close()
