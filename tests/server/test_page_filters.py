"""The page asks for a key, and filters: chips, values with their numbers, a time line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from indexer.engines.open import open_index
from indexer.store.changes import MetadataChange
from indexer.update.writer import open_writer
from server.backends import Backend
from tests.server.apps import make_key, serving
from tests.server.drawings import index_drawings
from tests.server.fake import DRAWINGS, FakeSearcher
from tests.server.pages import sign_in, violations, visited

TAKEN = ["2023-05-01", "2024-06-01", "2024-06-01T12:00:00", "2024-07-03", None]
CAMERAS = ["Canon", "Canon", 'The "old" one', "Nikon", "Nikon"]


@pytest.fixture(scope="module")
def address(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    index = index_drawings(tmp_path_factory.mktemp("filters") / "index", photos)
    about = [
        {"taken": taken, "camera": camera, "width": drawing.size[0], "height": drawing.size[1]}
        for taken, camera, drawing in zip(TAKEN, CAMERAS, DRAWINGS.values(), strict=True)
    ]
    with open_writer(index) as writer:
        writer.write(list(map(MetadataChange, DRAWINGS, about)))
    with closing(open_index(index)) as searcher:
        searcher.warm_up()  # so that no test waits for a compiler
        with serving(Backend("sparta", searcher, photos)) as address:
            yield address


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    with visited(browser, address, bypass_csp=True) as page:
        yield page


def values(page: Page, field: str) -> list[str]:
    found = page.get_by_role("list", name=field, exact=True).get_by_role("button")
    expect(found.first).to_be_visible()
    return [" ".join(text.split()) for text in found.all_inner_texts()]


def test_values_become_chips_that_can_be_removed(page: Page) -> None:
    page.goto("/?q=red+green+blue")
    expect(page.locator(".card")).to_have_count(5)
    page.get_by_text("Filter", exact=True).focus()
    page.keyboard.press("Enter")
    assert values(page, "camera") == ["Canon 2", "Nikon 2", 'The "old" one 1']
    assert values(page, "taken") == ["2023 1", "2024 3"]
    assert violations(page) == []
    page.get_by_role("button", name='Filter by camera The "old" one: 1 photo').press("Enter")
    expect(page.locator(".card .name")).to_have_text(["sea/a b.webp"])
    expect(page).to_have_url(
        "/?q=red+green+blue&k=20&filter=camera%3A%3D%22The+%5C%22old%5C%22+one%22"
    )
    page.reload()
    expect(page.locator(".card")).to_have_count(1)
    expect(page.locator("#filters .chip")).to_have_count(1)
    page.locator("#filters .chip").click()
    expect(page.locator(".card")).to_have_count(5)
    expect(page.locator("#filters .chip")).to_have_count(0)
    page.go_back()
    expect(page.locator(".card")).to_have_count(1)


def test_a_time_line_leads_from_years_to_days(page: Page) -> None:
    page.goto("/?q=red+green+blue")
    page.get_by_text("Filter", exact=True).click()
    page.get_by_role("button", name="Filter by taken 2024: 3 photos").click()
    expect(page.locator(".card")).to_have_count(3)
    expect(page.get_by_role("button", name="Filter by taken 2024-07: 1 photo")).to_be_visible()
    page.get_by_role("button", name="Filter by taken 2024-06: 2 photos").click()
    expect(page.locator(".card")).to_have_count(2)
    expect(page.get_by_role("button", name="Filter by taken 2024-06-01: 2 photos")).to_be_visible()
    expect(page.locator("#filters .chip")).to_contain_text("taken: 2024-06")


def test_without_words_the_newest_photos_come_first(page: Page) -> None:
    page.goto("/?filter=taken%3A2024")
    names = ["sea/100% #1?&+;=.png", "sea/a b.webp", "garden/two.jpg"]
    expect(page.locator(".card .name")).to_have_text(names)
    expect(page.locator(".status")).to_contain_text("3 photos")
    expect(page.locator(".card .score").first).to_have_text("")
    page.locator(".opener").first.click()
    expect(page.get_by_role("dialog")).not_to_contain_text("Similarity")
    page.get_by_role("link", name="More like this").click()
    expect(page.locator(".query-image h2")).to_contain_text("Photos similar to")
    expect(page.locator(".card .name")).to_have_text(["garden/two.jpg", "sea/a b.webp"])


def test_a_wrong_filter_is_an_error(page: Page) -> None:
    page.goto("/?q=red&filter=camra%3Ax")
    expect(page.get_by_role("alert")).to_contain_text("no image has the field 'camra'")
    page.get_by_text("Filter", exact=True).click()
    expect(page.locator("#facets")).to_contain_text("no image has the field 'camra'")
    page.locator("#filters .chip").click()
    expect(page.locator(".card").first).to_be_visible()


KEY = "Sign in with a key"


@pytest.fixture(scope="module")
def search_key(keys: Path) -> str:
    return make_key(keys)


@pytest.fixture(scope="module", params=["", "/photos"])
def guarded_address(
    photos: Path, keys: Path, search_key: str, request: pytest.FixtureRequest
) -> Iterator[str]:
    sparta = Backend("sparta", FakeSearcher(), photos, ("red",))
    with serving(sparta, keys=keys, root_path=request.param) as address:
        yield address + request.param


@pytest.fixture
def signing(browser: Browser, guarded_address: str) -> Iterator[Page]:
    with visited(browser, guarded_address) as page:
        yield page


def test_a_key_is_asked_for_and_shows_photos_until_signed_out(
    signing: Page, guarded_address: str, search_key: str
) -> None:
    page, address = signing, guarded_address
    requested: list[str] = []
    page.on("request", lambda request: requested.append(request.url))
    page.goto(f"{address}/?q=red")
    expect(page.get_by_role("heading", name=KEY)).to_be_visible()
    expect(page.get_by_label("Key", exact=True)).to_be_focused()
    expect(page.locator("#q")).to_be_hidden()
    expect(page.get_by_role("button", name="Sign out")).to_be_hidden()
    sign_in(page, "wrong")
    expect(page.get_by_role("alert")).to_have_text("the key is unknown, or was revoked")
    sign_in(page, search_key)
    expect(page.locator(".card")).to_have_count(3)
    expect(page.get_by_role("heading", name=KEY)).to_be_hidden()
    for image in page.locator(".card img").all():
        expect(image).to_have_js_property("complete", True)
        assert image.evaluate("image => image.naturalWidth") > 0
    page.reload()
    expect(page.locator(".card")).to_have_count(3)
    assert page.evaluate("document.cookie") == ""
    assert page.evaluate("JSON.stringify({...localStorage, ...sessionStorage})") == "{}"
    assert not [url for url in requested if search_key in url or "wrong" in url]
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name=KEY)).to_be_visible()
    expect(page.locator(".card")).to_have_count(0)
    assert page.context.cookies() == []


def test_a_key_that_is_revoked_is_asked_for_again(
    signing: Page, guarded_address: str, keys: Path
) -> None:
    page, address = signing, guarded_address
    before = keys.read_bytes()
    page.goto(address + "/")
    sign_in(page, make_key(keys))
    expect(page.locator("#corpus")).to_have_text("5 photos")
    keys.write_bytes(before)
    page.locator("#q").fill("red")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name=KEY)).to_be_visible()
