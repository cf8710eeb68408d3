"""Photos of the device, dropped on the page or chosen: added to the index, or searched by."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from server.security.access import MAX_WRITTEN
from tests.server.drawings import index_photos
from tests.server.pages import DRAG, PHONE, sign_in, violations, visited, width
from tests.server.served import served
from tests.server.test_photo_files import photo


@dataclass
class Index:
    """Stands for an index that is written to.

    Attributes:
        problems: the answers to the next attempts to put an image, by id.
        ids: of its images.
        put: id, and the value of If-None-Match, of all attempts.
    """

    problems: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    ids: set[str] = field(default_factory=set)
    put: list[tuple[str, str | None]] = field(default_factory=list)

    def answer(self, route: Route) -> None:
        request = route.request
        image_id = unquote(urlsplit(request.url).path.removeprefix("/v1/images/"))
        if request.method == "GET" and image_id in self.ids:
            url = "/v1/images/garden/one.png/file"
            about = {"image_id": image_id, "url": url, "metadata": {"width": 320, "height": 240}}
            route.fulfill(json=about)
        elif request.method == "PUT":
            condition = request.headers.get("if-none-match")
            self.put.append((image_id, condition))
            if waiting := self.problems.get(image_id):
                route.fulfill(**waiting.pop(0))
            elif image_id in self.ids and condition:
                route.fulfill(status=412, json={"title": "The index has it", "detail": "there"})
            else:
                self.ids.add(image_id)
                route.fulfill(json={})
        else:
            route.fallback()


def refused(status: int, detail: str, **headers: str) -> dict[str, Any]:
    return {"status": status, "json": {"title": "No", "detail": detail}, "headers": headers}


@pytest.fixture
def index() -> Index:
    return Index()


@pytest.fixture
def page(browser: Browser, guarded: str, write_key: str, index: Index) -> Iterator[Page]:
    with visited(browser, guarded, bypass_csp=True) as page:
        page.route("**/v1/images/*", index.answer)
        page.goto("/?q=red")
        sign_in(page, write_key)
        expect(page.locator(".card")).to_have_count(3)
        yield page


def add(page: Page, *names: str) -> None:
    choose(page, "Add photos", *((name, b"x") for name in names))


def choose(page: Page, button: str, *named: tuple[str, bytes]) -> None:
    """Choose files, names with contents, with a button."""
    files: list[Any] = [
        {"name": name, "mimeType": "image/png", "buffer": content} for name, content in named
    ]
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name=button).press("Enter")
    chooser.value.set_files(files)


def panel(page: Page) -> Any:
    return page.get_by_role("region", name="Adding photos")


def test_photos_are_added_and_shown(page: Page, index: Index) -> None:
    add(page, "a.jpg", "b c#1?.jpg")
    expect(page.locator(".card .name")).to_have_text(["a.jpg", "b c#1?.jpg"])
    expect(page.locator(".status")).to_have_text("2 photos added")
    expect(panel(page)).to_be_hidden()
    assert index.put == [("a.jpg", "*"), ("b c#1?.jpg", "*")]
    image = page.locator(".card img").first
    expect(image).to_have_js_property("complete", True)
    assert image.evaluate("image => image.naturalWidth") > 0
    page.locator(".opener").nth(1).click()
    expect(page.get_by_role("dialog").locator("h2")).to_have_text("2 b c#1?.jpg")
    page.keyboard.press("Escape")
    page.go_back()
    expect(page.locator("#q")).to_have_value("red")
    expect(page.locator(".card")).to_have_count(3)


def test_photos_are_dropped(page: Page, index: Index) -> None:
    assert page.evaluate(DRAG, ["dragover", 800, 400, ["a.jpg"]])
    zone = page.get_by_text("Drop photos here to add them to the index")
    expect(zone).to_be_visible()
    assert violations(page) == []
    assert page.evaluate(DRAG, ["dragover", 800, 400, ["a.jpg"]])
    expect(zone).to_have_class("zone over")
    assert violations(page) == []
    page.evaluate("dispatchEvent(new DragEvent('dragleave'))")
    expect(zone).to_be_hidden()
    page.evaluate(DRAG, ["dragover", 800, 400, ["a.jpg"]])
    assert page.evaluate(DRAG, ["drop", 2, 2, ["a.jpg"]])  # else the browser opens the file
    expect(zone).to_be_hidden()
    assert index.put == []
    page.evaluate(DRAG, ["dragover", 800, 400, ["a.jpg"]])
    page.evaluate(DRAG, ["dragover", 800, 400, ["a.jpg", "b.jpg"]])
    expect(page.get_by_text("find similar ones")).to_be_hidden()
    page.evaluate(DRAG, ["drop", 800, 400, ["a.jpg", "b.jpg"]])
    expect(page.locator(".card .name")).to_have_text(["a.jpg", "b.jpg"])
    assert not page.evaluate(DRAG, ["dragover", 800, 400, []])  # a text, say
    page.locator(".opener").first.click()
    assert page.evaluate(DRAG, ["dragover", 2, 2, ["a.jpg"]])
    expect(zone).to_be_hidden()


def test_what_cannot_be_added_is_listed_with_the_reason(
    page: Page, index: Index, tmp_path: Path
) -> None:
    for name, status in (("b", 415), ("c", 422), ("d", 411)):
        index.problems[f"{name}.jpg"] = [refused(status, f"why {status}")]
    index.problems["e.jpg"] = [refused(429, "too many", **{"Retry-After": "0.01"})] * 2
    large = tmp_path / "large.jpg"
    with large.open("wb") as file:
        file.truncate(MAX_WRITTEN + 1)
    add(page, "a.jpg", "b.jpg", "c.jpg", "d.jpg", "e.jpg")
    expect(panel(page).get_by_role("status")).to_have_text("2 photos added, 3 not")
    expect(panel(page).get_by_role("listitem")).to_have_text(
        ["b.jpg: why 415", "c.jpg: why 422", "d.jpg: why 411"]
    )
    expect(page.locator(".card .name")).to_have_text(["a.jpg", "e.jpg"])
    assert violations(page) == []
    panel(page).get_by_role("button", name="Close").press("Enter")
    expect(panel(page)).to_be_hidden()
    page.locator("#files").set_input_files(large)
    line = panel(page).get_by_role("listitem")
    expect(line).to_have_text("large.jpg: the file has 65 MiB; 64 MiB are allowed")
    page.evaluate("() => { File.prototype.slice = () => { throw new Error('no file') } }")
    add(page, "gone.jpg")
    expect(line).to_contain_text("gone.jpg: this is no file that can be read")


@pytest.mark.parametrize("status", [403, 409, None])
def test_what_concerns_all_photos_ends_it(page: Page, index: Index, status: int | None) -> None:
    if status:
        index.problems["b.jpg"] = [refused(status, "not today")]
        why = "not today"
    else:
        page.route("**/v1/images/b.jpg", lambda route: route.abort())
        why = "The server does not answer. Is “sparta serve” still running?"
    add(page, "a.jpg", "b.jpg", "c.jpg", "d.jpg")
    expect(panel(page).get_by_role("status")).to_have_text("1 photo added, 3 not")
    expect(panel(page).get_by_role("listitem")).to_have_text([f"b.jpg: {why}"])


def test_what_a_proxy_answers_is_said_in_words(page: Page, index: Index) -> None:
    """It knows no JSON. While it reaches no server, which may be starting, the page waits."""
    html = {"body": "<html>", "content_type": "text/html"}
    index.problems["a.jpg"] = [{"status": 413, **html}]
    index.problems["b.jpg"] = [{"status": 502, **html}]
    add(page, "a.jpg", "b.jpg")
    expect(panel(page).get_by_role("status")).to_have_text("1 photo added, 1 not", timeout=20_000)
    line = panel(page).get_by_role("listitem")
    expect(line).to_contain_text("a.jpg: The proxy in front of the server takes no file of this")
    expect(line).to_contain_text("Choose a smaller one")


def test_no_photo_is_replaced_without_a_question(page: Page, index: Index) -> None:
    index.ids = {"a.jpg", "a-2.jpg", "b.jpg", "c.jpg"}
    add(page, "a.jpg", "b.jpg", "c.jpg")
    dialog = page.get_by_role("dialog", name="a.jpg is in the index already")
    expect(dialog.get_by_role("button", name="Skip")).to_be_focused()
    assert violations(page) == []
    dialog.get_by_role("button", name="Keep both").click()
    expect(page.get_by_role("dialog", name="b.jpg is in the index already")).to_be_visible()
    page.keyboard.press("Escape")
    dialog = page.get_by_role("dialog", name="c.jpg is in the index already")
    dialog.get_by_role("button", name="Replace").click()
    expect(page.locator(".card .name")).to_have_text(["a-3.jpg", "c.jpg"])
    expect(panel(page)).to_be_hidden()
    unconditional = [image_id for image_id, condition in index.put if condition is None]
    assert unconditional == ["c.jpg"]


def test_one_answer_may_be_for_all(page: Page, index: Index) -> None:
    index.ids = {"a.jpg", "b.jpg", "c"}
    add(page, "a.jpg", "b.jpg", "c")
    page.get_by_label("Do the same with all others").check()
    page.get_by_role("button", name="Keep both").click()
    expect(page.locator(".card .name")).to_have_text(["a-2.jpg", "b-2.jpg", "c-2"])
    add(page, "a.jpg")
    expect(page.get_by_role("dialog")).to_be_visible()
    expect(page.get_by_label("Do the same with all others")).to_have_count(0)


def test_adding_can_be_stopped(page: Page) -> None:
    page.route("**/v1/images/b.jpg", lambda _: None)  # no answer
    add(page, "a.jpg", "b.jpg", "c.jpg")
    expect(panel(page).get_by_role("status")).to_have_text("Adding b.jpg (2 of 3)")
    expect(panel(page).get_by_role("progressbar")).to_have_js_property("value", 1)
    assert violations(page) == []
    panel(page).get_by_role("button", name="Stop").press("Enter")
    expect(panel(page).get_by_role("status")).to_have_text("1 photo added, 2 not")
    expect(page.locator(".card .name")).to_have_text(["a.jpg"])


def test_a_phone_adds_photos_and_searches_by_them(
    browser: Browser, guarded: str, write_key: str, index: Index
) -> None:
    with visited(browser, guarded, **PHONE, bypass_csp=True) as page:
        page.route("**/v1/images/*", index.answer)
        page.goto("/")
        with page.expect_navigation():  # the page loads itself again
            sign_in(page, write_key)
        header = page.locator("body > header")
        expect(header).to_be_visible()
        assert header.evaluate("element => element.getBoundingClientRect().height") < 70
        expect(page.get_by_role("button", name="Search by a photo")).to_be_visible()
        assert violations(page) == []
        page.evaluate(DRAG, ["dragover", 200, 400, ["a.jpg"]])
        assert violations(page) == []
        assert width(page) <= 360
        page.evaluate("dispatchEvent(new DragEvent('dragleave'))")
        index.problems["long.jpg"] = [refused(422, "long " * 60)]
        add(page, "long.jpg", "b.jpg")
        expect(panel(page).get_by_role("status")).to_have_text("1 photo added, 1 not")
        assert width(page) <= 360
        box = panel(page).bounding_box()
        assert box and box["x"] >= 0 and box["x"] + box["width"] <= 360


def test_a_photo_is_found_once_it_was_added(
    browser: Browser, photos: Path, tmp_path: Path, keys: Path, write_key: str
) -> None:
    """With a server that encodes and writes."""
    index, model, _ = index_photos(photos, tmp_path)
    with served(index, "--keys", str(keys), "--model", str(model)) as (address, _):
        page = browser.new_page(base_url=address)
        page.goto("/")
        sign_in(page, write_key)
        expect(page.locator("#corpus")).to_have_text("5 photos")
        content: Any = {"name": "new one.png", "mimeType": "image/png", "buffer": photo("PNG")}
        page.locator("#files").set_input_files([content])
        expect(page.locator(".card .name")).to_have_text(["new one.png"], timeout=60_000)
        expect(page.locator("#corpus")).to_have_text("6 photos")
        image = page.locator(".card img")
        expect(image).to_have_attribute("src", "/v1/images/new%20one.png/thumbnail?size=512")
        expect(image).to_have_js_property("naturalWidth", 9)
        page.locator("#files").set_input_files([content])
        expect(page.get_by_role("dialog")).to_contain_text("new one.png is in the index already")
        page.keyboard.press("Escape")
        page.close()


# ---- searching by a photo ------------------------------------------------------------------------

SIMILAR = "**/v1/images/similar?*"
BY_PHOTO = "Search by a photo"


@pytest.fixture
def finding(page: Page) -> None:
    """A server that finds two photos for every one that is sent."""
    found = page.request.get("/v1/search?q=blue&k=2&explain=true").json()
    answer = {name: found[name] for name in ("backend", "index_version", "hits", "timings")}
    body = json.dumps(answer | {"terms": [{"term": "blue", "count": 256}]})
    page.route(SIMILAR, lambda route: route.fulfill(body=body))


@pytest.mark.usefixtures("finding")
def test_similar_photos_are_shown_below_the_one_that_was_chosen(page: Page) -> None:
    sent: list[Any] = []
    page.on("request", lambda r: sent.append(r) if "/similar" in r.url else None)
    choose(page, BY_PHOTO, ("mine.png", photo("PNG")))
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


@pytest.mark.usefixtures("finding")
def test_a_photo_is_dropped_to_search_by_it(page: Page) -> None:
    page.evaluate(DRAG, ["dragover", 300, 400, ["a.jpg"]])
    expect(page.get_by_text("find similar ones")).to_be_visible()
    page.evaluate(DRAG, ["drop", 300, 400, ["a.jpg"]])
    expect(page.locator(".card")).to_have_count(2)
    expect(page.locator(".query-image h2")).to_have_text("Photos similar to a.jpg")
    expect(page.locator(".query-image canvas")).to_have_count(0)  # it is no photo


def test_why_a_photo_cannot_be_searched_for(page: Page) -> None:
    problem = {"title": "The image cannot be written", "detail": "not an image"}
    page.route(SIMILAR, lambda route: route.fulfill(status=422, json=problem))
    choose(page, BY_PHOTO, ("mine.png", b"x"))
    expect(page.get_by_role("alert").filter(has_text="not an image")).to_be_visible()
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("heading", name="Search photos in plain words")).to_be_visible()
