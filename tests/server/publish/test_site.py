"""Published sites in a browser, from Python's own host of files, and that of the demo."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from PIL import Image
from playwright.sync_api import Browser, Page, expect
from typer.testing import CliRunner

from indexer.engines.open import open_index
from indexer.postings import Postings
from indexer.search.searcher import Searcher
from indexer.update.images import delete_images
from server.publish.photos import Pictures
from server.publish.publishing import Choices, publish
from sparta.command_line import cli
from sparta.tokenizer import TermTokenizer
from tests.indexer.random_postings import random_postings, write_postings
from tests.server.fake import draw
from tests.server.pages import visited
from tests.server.publish.collections import hosting
from tests.server.publish.firefox import FirefoxPage, firefox_page
from tests.test_docs import dry_run


@pytest.fixture(scope="module")
def index(tokenizer: TermTokenizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
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
def engine(index: Path) -> Iterator[Searcher]:
    searcher = open_index(index, "columns")
    yield searcher
    searcher.close()


@pytest.fixture
def page(browser: Browser, index: Path) -> Iterator[Page]:
    """The start page; an error or a request that leaves the site's folder fails the test."""
    errors: list[str] = []
    with hosting(index.parent) as address, visited(browser, f"{address}/site/") as page:
        page.on("console", lambda m: errors.append(m.text) if m.type == "error" else None)
        page.goto(f"{address}/site/")
        yield page
    # Without network there are photos that cannot be seen.
    assert [error for error in errors if "net::ERR_FAILED" not in error] == []


def search(page: Page, query: str) -> None:
    page.locator("#q").fill(query)
    page.keyboard.press("Enter")
    expect(page.locator("body")).to_have_class("")
    expect(page.locator("[aria-busy]")).to_have_count(0)
    expect(page.locator(".card").first).to_be_visible()


def eventually(condition: Callable[[], bool]) -> None:
    """Wait; the policy of the page lets Playwright's own way not run."""
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


def names(page: Page) -> list[str]:
    return page.locator(".card .name").all_inner_texts()


def test_a_search_as_on_the_server(page: Page, engine: Searcher) -> None:
    expect(page.locator("#corpus")).to_have_text("40 photos")
    expect(page.locator("#by-photo")).to_have_count(0)
    expect(page.locator("#add")).to_be_hidden()
    page.locator("#examples a").click()
    hits = engine.search("the dog", 20).hits
    expect(page.locator(".card .name").nth(19)).to_have_text(hits[19].image_id)
    assert names(page)[:20] == [hit.image_id for hit in hits]
    search(page, "the dog -cat zyzzy")
    expect(page.locator(".words s")).to_have_text(["cat", "zyzzy"])
    wanted = engine.search("the dog -cat zyzzy", 20).hits
    assert names(page)[:20] == [hit.image_id for hit in wanted]


def test_more_like_this(page: Page, engine: Searcher) -> None:
    search(page, "dog ball")
    page.locator(".card .opener").first.click()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#details .rank")).to_have_text("2")
    page.locator("#details .like").click()
    expect(page.locator(".query-image h2")).to_contain_text("Photos similar to")
    second = engine.search("dog ball", 2).hits[1].image_id
    near = [hit.image_id for hit in engine.similar(second, 20).hits]
    expect(page.locator(".card .name").first).to_have_text(near[0])
    assert names(page) == near


def test_filters_suggestions_and_deep_links(page: Page, engine: Searcher) -> None:
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


def test_without_network(page: Page, index: Path, engine: Searcher) -> None:
    search(page, "the ball")
    eventually(lambda: bool(page.evaluate("navigator.serviceWorker.controller !== null")))
    files = {one for one in files_of(index.parent) if one.startswith("index/")}
    eventually(lambda: files <= set(kept(page)))
    page.context.set_offline(True)
    page.goto(page.url.partition("?")[0] + "?q=red cat&k=10")
    expect(page.locator(".card .name").nth(9)).to_be_visible()
    wanted = [hit.image_id for hit in engine.search("red cat", 10).hits]
    assert names(page)[:10] == wanted
    page.context.set_offline(False)


# ---- photos that are withdrawn ------------------------------------------------------------------

SHOWN = Pictures((64, 512), originals=True)
KEPT = """async () => (await Promise.all((await caches.keys()).map(async (name) =>
  (await (await caches.open(name)).keys()).map(({ url }) => decodeURI(new URL(url).pathname)))))
  .flat().map((path) => path.split("/site/")[1])
  .filter((path) => /^(index|photos)[/]/.test(path))"""
FETCH = "async (paths) => { for (const one of paths) await (await fetch(one)).blob(); return 0; }"


@pytest.fixture
def album(tokenizer: TermTokenizer, tmp_path: Path) -> Path:
    """A site of six photos, its index beside it."""
    rows = list(random_postings(tokenizer, 6, seed=3))
    for number, row in enumerate(rows):
        path = tmp_path / "photos" / row.image_id
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (90, 60), (40 * number, 0, 0)).save(path, "PNG")
        row.metadata.update(width=90, height=60)
    write_postings(tmp_path / "index", [Postings.of(rows)], tokenizer)
    publish_album(tmp_path)
    return tmp_path


@pytest.fixture
def address(album: Path) -> Iterator[str]:
    """Of the album's host."""
    with hosting(album) as address:
        yield address


@pytest.fixture
def visitor(browser: Browser) -> Iterator[Page]:
    """A page with a cache of its own."""
    context = browser.new_context()
    yield context.new_page()
    context.close()


def publish_album(album: Path) -> None:
    publish(album / "index", album / "site", Choices(album / "photos", SHOWN))


def files_of(album: Path) -> set[str]:
    found = (path.relative_to(album / "site").as_posix() for path in (album / "site").rglob("*"))
    return {path for path in found if path.startswith(("index/", "photos/"))}


def kept(page: Page | FirefoxPage) -> list[str]:
    found: list[str] = page.evaluate(KEPT)
    return found


def visit_all(page: Page | FirefoxPage, album: Path, address: str) -> set[str]:
    """Let a browser keep all pictures of a site, and the index."""
    page.goto(f"{address}/site/")
    eventually(lambda: {"index/index.json"} < set(kept(page)))
    pictures = {path for path in files_of(album) if path.startswith("photos/")}
    page.evaluate(FETCH, sorted(pictures))
    eventually(lambda: pictures <= set(kept(page)))
    return pictures


def check_withdrawal(page: Page | FirefoxPage, album: Path, address: str) -> None:
    """Withdraw two photos and replace a third; the next visit forgets them and nothing else."""
    before = visit_all(page, album, address)
    assert len(before) == 18
    photos = album / "photos"
    ids = sorted(path.relative_to(photos).as_posix() for path in photos.rglob("*.*"))
    delete_images(album / "index", ids[:1])
    publish_album(album)
    delete_images(album / "index", ids[1:2])
    Image.new("RGB", (90, 60), "green").save(photos / ids[2], "PNG")
    publish_album(album)
    now = files_of(album)
    assert len(before & now) == 9  # the site itself has no others either
    page.goto(f"{address}/site/?q=dog")
    eventually(lambda: set(kept(page)) <= now)
    assert before & now <= set(kept(page))


def test_withdrawn_photos_are_forgotten(visitor: Page, album: Path) -> None:
    with hosting(album, ranges=True) as address:
        check_withdrawal(visitor, album, address)


@pytest.mark.needs("Firefox")
def test_withdrawn_photos_are_forgotten_by_firefox(
    album: Path, address: str, tmp_path: Path
) -> None:
    (tmp_path / "profile").mkdir()
    with firefox_page(tmp_path / "profile") as page:
        check_withdrawal(page, album, address)


def test_new_data_alone_forgets_while_another_tab_is_open(
    visitor: Page, album: Path, address: str
) -> None:
    old, new = visitor, visitor.context.new_page()
    visit_all(old, album, address)
    site, page = album / "site", album / "page"
    shutil.copytree(site, page)
    withdrawn = sorted(files_of(album))
    shutil.rmtree(album / "photos")
    publish_album(album)
    for name in ("sw.js", "index.html"):
        shutil.copy(page / name, site / name)
    now = files_of(album)
    new.goto(f"{address}/site/")
    eventually(lambda: set(kept(new)) <= now)
    # What the other tab shows, and a browser's own cache may still have, is not kept again.
    for name in withdrawn:
        if not (site / name).exists():
            (site / name).parent.mkdir(exist_ok=True)
            shutil.copy(page / name, site / name)
    old.evaluate(FETCH, withdrawn)
    old.wait_for_timeout(500)
    assert set(kept(old)) <= now


def test_files_that_an_earlier_script_kept_are_forgotten(
    visitor: Page, album: Path, address: str
) -> None:
    visit_all(visitor, album, address)
    cache = "(await caches.open('sparta-index-/site/'))"
    visitor.evaluate(f"async () => {cache}.put('photos/64-0.webp', new Response('x'))")
    with (album / "site" / "sw.js").open("a") as script:
        script.write("// another version")
    visitor.goto(f"{address}/site/?q=dog")
    eventually(lambda: "photos/64-0.webp" not in kept(visitor))


def test_the_pictures_used_last_are_kept(visitor: Page, album: Path, address: str) -> None:
    script = album / "site" / "sw.js"
    text = script.read_text()
    assert "const MOST = 1000;" in text
    script.write_text(text.replace("const MOST = 1000;", "const MOST = 4;"))
    visitor.goto(f"{address}/site/")
    eventually(lambda: {"index/index.json"} < set(kept(visitor)))
    pictures = sorted(path for path in files_of(album) if path.startswith("photos/"))
    for wanted in (pictures[:4], pictures[:1], pictures[4:6]):
        visitor.evaluate(FETCH, wanted)
    last = {pictures[3], pictures[0], *pictures[4:6]}
    eventually(lambda: {one for one in kept(visitor) if one.startswith("photos/")} == last)


def test_the_demo(browser: Browser, tmp_path: Path) -> None:
    recipe = "\n".join(dry_run("demo-site", f"DEMO={tmp_path}")).replace("\\\n", " ")
    lines = [shlex.split(line) for line in recipe.splitlines() if "/bin/" in line]
    [scenes] = [words[1:] for words in lines if "tests.scenes" in words]
    commands = [words[1:] for words in lines if words[0].endswith("/sparta")]
    assert [command[0] for command in commands] == ["index", "publish"]
    fewer = ["40" if word == "1000" else word for word in scenes]
    subprocess.run([sys.executable, *fewer], check=True)
    for command in commands:
        assert CliRunner().invoke(cli, command).exit_code == 0
    with hosting(tmp_path / "site") as address, visited(browser, address) as page:
        page.goto("/")
        expect(page.locator("#corpus")).to_have_text("40 photos")
        example = page.locator("#examples a").first
        text = example.inner_text()
        example.click()
        with closing(open_index(tmp_path / "index", "columns")) as engine:
            hits = engine.search(text, 20).hits
        wanted = [Path(hit.image_id).name for hit in hits]
        expect(page.locator(".card .name").nth(len(hits) - 1)).to_have_text(wanted[-1])
        assert names(page)[: len(hits)] == wanted
