"""A published site in a browser, from Python's own host of files."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect

from indexer.postings import Postings
from indexer.search.columns import ColumnSearcher
from indexer.search.open import open_index
from server.publish.photos import Pictures
from server.publish.publishing import Choices, publish
from sparta.tokenizer import WordPieceTokenizer
from tests.indexer.random_postings import random_postings, write_postings
from tests.server.fake import draw
from tests.server.publish.hosts import hosting


@pytest.fixture(scope="module")
def index(tokenizer: WordPieceTokenizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of forty photos, which all look alike."""
    folder = tmp_path_factory.mktemp("gallery")
    drawing = next(path for path in draw(folder / "drawn").rglob("*.png"))
    rows = list(random_postings(tokenizer, 40, seed=3))
    for row in rows:
        path = folder / "photos" / row.image_id
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(drawing.read_bytes())
        row.metadata.update(width=300, height=200, tags=["even", "odd"][row.metadata["width"] % 2])
    write_postings(folder / "index", [Postings.of(rows)], tokenizer)
    choices = Choices(folder / "photos", Pictures((64, 512)), ("tags",), examples=("the dog",))
    publish(folder / "index", folder / "site", choices)
    return folder / "index"


@pytest.fixture(scope="module")
def engine(index: Path) -> Iterator[ColumnSearcher]:
    searcher = open_index(index, "columns")
    assert isinstance(searcher, ColumnSearcher)
    yield searcher
    searcher.close()


def is_problem(message: ConsoleMessage) -> bool:
    """Whether the console shows an error; without network there are photos that cannot be seen."""
    return message.type == "error" and "net::ERR_FAILED" not in message.text


@pytest.fixture
def page(browser: Browser, index: Path) -> Iterator[Page]:
    """The start page; an error or a request that leaves the site's folder fails the test."""
    with hosting(index.parent) as address:
        context = browser.new_context(viewport={"width": 1100, "height": 800})
        page = context.new_page()
        problems: list[str] = []
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda m: problems.append(m.text) if is_problem(m) else None)
        page.on(
            "request",
            lambda r: None if r.url.startswith(f"{address}/site/") else problems.append(r.url),
        )
        page.goto(f"{address}/site/")
        yield page
        context.close()
    assert problems == []


def search(page: Page, query: str) -> None:
    page.locator("#q").fill(query)
    page.keyboard.press("Enter")
    expect(page.locator("body")).to_have_class("")
    expect(page.locator("[aria-busy]")).to_have_count(0)
    expect(page.locator(".card").first).to_be_visible()


def until(page: Page, condition: str) -> None:
    """Wait; the policy of the page lets Playwright's own way not run."""
    end = time.monotonic() + 20
    while not page.evaluate(condition):
        assert time.monotonic() < end, condition
        page.wait_for_timeout(100)


def names(page: Page) -> list[str]:
    return page.locator(".card .name").all_inner_texts()


def test_a_search_as_on_the_server(page: Page, engine: ColumnSearcher) -> None:
    expect(page.locator("#corpus")).to_have_text("40 photos")
    expect(page.locator("#by-photo")).to_have_count(0)
    expect(page.locator("#add")).to_be_hidden()
    page.locator("#examples a").click()
    hits = engine.search("the dog", 20).hits
    expect(page.locator(".card .name").nth(19)).to_have_text(hits[19].image_id)
    assert names(page)[:20] == [hit.image_id for hit in hits]
    image = page.locator(".card img").first
    expect(image).to_have_js_property("complete", True)
    assert image.evaluate("e => e.naturalWidth") > 0
    search(page, "the dog -cat zyzzy")
    expect(page.locator(".words s")).to_have_text(["cat", "zyzzy"])
    wanted = engine.search("the dog -cat zyzzy", 20).hits
    assert names(page)[:20] == [hit.image_id for hit in wanted]


def test_why_and_more_like_this(page: Page, engine: ColumnSearcher) -> None:
    search(page, "dog ball")
    page.locator(".words .chip", has_text="dog").hover()
    page.locator(".card .opener").first.click()
    best = engine.search("dog ball", 1).hits[0]
    why = engine.explain("dog ball", best.image_id)
    rows = page.locator("#details tbody tr")
    expect(rows.nth(0).locator("td").nth(1)).to_have_text(f"{why.terms[0].impact}")
    expect(page.locator("#details tfoot td").first).to_have_text(f"{best.score:.0f}")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#details .rank")).to_have_text("2")
    page.locator("#details .like").click()
    expect(page.locator(".query-image h2")).to_contain_text("Photos similar to")
    second = engine.search("dog ball", 2).hits[1].image_id
    near = [hit.image_id for hit in engine.similar(second, 20).hits]
    expect(page.locator(".card .name").first).to_have_text(near[0])
    assert names(page) == near


def test_filters_suggestions_and_deep_links(page: Page, engine: ColumnSearcher) -> None:
    page.locator("#narrow summary").click()
    page.get_by_role("button", name="Filter by tags even").click()
    expect(page.locator(".status")).to_contain_text("20 photos")
    page.locator("#q").press_sequentially("do")
    expect(page.locator("#suggestions li").first).to_contain_text("dog")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("q=dog.*filter="))
    expect(page.locator(".status")).to_contain_text("search")
    expect(page.locator("[aria-busy]")).to_have_count(0)
    expect(page.locator(".card").first).to_contain_text("dog")
    found = names(page)
    page.reload()
    expect(page.locator(".card").first).to_be_visible()
    expect(page.locator(".card .name")).to_have_text(found)
    page.goto(page.url.partition("?")[0] + '?q=%2B"')
    expect(page.locator(".error")).to_contain_text("this quotation mark is not closed")


def test_phone_width(page: Page) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    search(page, "the dog")
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= 360


def test_without_network(page: Page, index: Path, engine: ColumnSearcher) -> None:
    search(page, "the ball")
    until(page, "navigator.serviceWorker.controller !== null")
    keys = "caches.open('sparta-index-/site/').then((cache) => cache.keys())"
    files = len(list((index.parent / "site" / "index").iterdir()))
    until(page, f"{keys}.then((found) => found.length >= {files})")
    page.context.set_offline(True)
    page.goto(page.url.partition("?")[0] + "?q=red cat&k=10")
    expect(page.locator(".card .name").nth(9)).to_be_visible()
    wanted = [hit.image_id for hit in engine.search("red cat", 10).hits]
    assert names(page)[:10] == wanted
    page.context.set_offline(False)
