"""Filters on the page: chips, values with their numbers, a time line."""

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
from tests.server.drawings import index_drawings
from tests.server.fake import DRAWINGS
from tests.server.live import serving
from tests.server.pages import PHONE, violations, visited, width

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


def test_a_phone_shows_filters(browser: Browser, address: str) -> None:
    with visited(browser, address, **PHONE) as page:
        page.goto("/?q=red+green+blue&filter=taken%3A2024")
        page.get_by_text("Filter", exact=True).click()
        expect(page.locator(".timeline button").first).to_be_visible()
        assert width(page) <= 360
