"""Searching by a photo of the device on the page, in a real browser."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from server.backends import Backend
from tests.server.fake import FakeSearcher
from tests.server.live import serving
from tests.server.pages import DRAG, PHONE, violations, visited, width
from tests.server.writing.test_uploads import photo

SIMILAR = "**/v1/images/similar?*"


@pytest.fixture(scope="module")
def address(photos: Path) -> Iterator[str]:
    with serving(Backend("sparta", FakeSearcher(), photos)) as address:
        yield address


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    """A server without keys, which finds two photos for every one that is sent."""
    with visited(browser, address) as page:
        found = page.request.get("/v1/search?q=blue&k=2&explain=true").json()
        answer = {name: found[name] for name in ("backend", "index_version", "hits", "timings")}
        body = json.dumps(answer | {"terms": [{"term": "blue", "count": 256}]})
        page.route(SIMILAR, lambda route: route.fulfill(body=body))
        page.goto("/?q=red")
        expect(page.locator(".card")).to_have_count(3)
        yield page


def choose(page: Page, name: str, content: bytes) -> None:
    file: Any = {"name": name, "mimeType": "image/png", "buffer": content}
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Search by a photo").press("Enter")
    chooser.value.set_files([file])


def test_similar_photos_are_shown_below_the_one_that_was_chosen(page: Page) -> None:
    sent: list[Any] = []
    page.on("request", lambda r: sent.append(r) if "/similar" in r.url else None)
    choose(page, "mine.png", photo("PNG"))
    names = ["garden/two.jpg", "sea/100% #1?&+;=.png"]
    expect(page.locator(".card .name")).to_have_text(names)
    heading = page.get_by_role("heading", name="Photos similar to mine.png")
    expect(heading).to_be_focused()
    drawn = page.locator(".query-image canvas")
    expect(drawn).to_be_visible()
    assert drawn.evaluate("e => [...e.getContext('2d').getImageData(4, 4, 1, 1).data]") == [
        *(255, 0, 0, 255)
    ]
    expect(page.locator(".status")).to_have_text("2 photos · terms 0.3 ms · search 1.0 ms")
    expect(page.locator("#q")).to_have_value("")
    page.locator(".words .chip", has_text="blue").hover()
    expect(page.locator(".card .box").first).to_be_visible()
    [request] = sent
    assert request.method == "POST"
    assert request.headers["content-type"] == "image/png"
    page.go_back()
    expect(page.locator(".card")).to_have_count(3)
    expect(page.locator(".query-image")).to_be_hidden()


def test_a_photo_is_dropped(page: Page) -> None:
    page.evaluate(DRAG, ["dragover", 500, 400, ["a.jpg", "b.jpg"]])
    expect(page.get_by_text("find similar ones")).to_be_hidden()
    page.evaluate(DRAG, ["dragover", 500, 400, ["a.jpg"]])
    expect(page.get_by_text("find similar ones")).to_be_visible()
    expect(page.get_by_text("add them to the index")).to_be_hidden()
    page.evaluate(DRAG, ["drop", 500, 400, ["a.jpg"]])
    expect(page.locator(".card")).to_have_count(2)
    expect(page.locator(".query-image h2")).to_have_text("Photos similar to a.jpg")
    expect(page.locator(".query-image canvas")).to_have_count(0)  # it is no photo


def test_why_a_photo_cannot_be_searched_for(page: Page) -> None:
    problem = {"title": "The image cannot be written", "detail": "not an image"}
    page.unroute(SIMILAR)
    page.route(SIMILAR, lambda route: route.fulfill(status=422, json=problem))
    choose(page, "mine.png", b"x")
    expect(page.get_by_role("alert").filter(has_text="not an image")).to_be_visible()
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("heading", name="Search photos in plain words")).to_be_visible()


def test_a_phone_searches_by_a_photo(browser: Browser, address: str) -> None:
    with visited(browser, address, **PHONE, bypass_csp=True) as page:
        page.goto("/")
        expect(page.get_by_role("button", name="Search by a photo")).to_be_visible()
        assert violations(page) == []
        page.evaluate(DRAG, ["dragover", 200, 400, ["a.jpg"]])
        assert violations(page) == []
        assert width(page) <= 360
