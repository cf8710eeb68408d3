"""The demo's site, and one of real photos, as their commands publish them, in a browser."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, expect
from typer.testing import CliRunner

from indexer.engines.open import open_index
from sparta.command_line import cli
from tests.server.pages import visited
from tests.server.publish.hosts import hosting
from tests.test_docs import dry_run

COUNT = 40  # photos


def sparta(*arguments: str | Path) -> None:
    run = CliRunner().invoke(cli, list(map(str, arguments)))
    assert run.exit_code == 0, run.output


@contextmanager
def opened(browser: Browser, site: Path) -> Iterator[Page]:
    with hosting(site) as address, visited(browser, address) as page:
        page.goto("/")
        expect(page.locator("#corpus")).to_have_text(f"{COUNT} photos")
        yield page


def check(page: Page, index: Path, query: str) -> None:
    """The page shows the engine's hits and why the first was found, with its box."""
    with_columns = open_index(index, "columns")
    hits = with_columns.search(query, 20).hits
    best = with_columns.explain(query, hits[0].image_id)
    with_columns.close()
    found = page.locator(".card .name")
    expect(found.nth(len(hits) - 1)).to_have_text(Path(hits[-1].image_id).name)
    assert found.all_inner_texts()[: len(hits)] == [Path(hit.image_id).name for hit in hits]
    image = page.locator(".card img").first
    expect(image).to_have_js_property("complete", True)
    assert image.evaluate("e => e.naturalWidth") > 0
    page.locator(".card .opener").first.click()
    expect(page.locator("#details tfoot td").first).to_have_text(f"{best.score:.0f}")
    place = next(place for place, term in enumerate(best.terms) if term.box is not None)
    page.locator("#details tbody tr").nth(place).hover()
    expect(page.locator("#details .box").first).to_be_visible()


def test_the_demo(browser: Browser, tmp_path: Path) -> None:
    recipe = "\n".join(dry_run("demo-site", f"DEMO={tmp_path}")).replace("\\\n", " ")
    lines = [shlex.split(line) for line in recipe.splitlines() if "/bin/" in line]
    [scenes] = [words[1:] for words in lines if "tests.scenes" in words]
    commands = [words[1:] for words in lines if words[0].endswith("/sparta")]
    assert [command[0] for command in commands] == ["index", "publish"]
    fewer = [str(COUNT) if word == "1000" else word for word in scenes]
    subprocess.run([sys.executable, *fewer], check=True)
    for command in commands:
        sparta(*command)
    with opened(browser, tmp_path / "site") as page:
        example = page.locator("#examples a").first
        text = example.inner_text()
        example.click()
        check(page, tmp_path / "index", text)


def test_real_photos(browser: Browser, shared: Path, tmp_path: Path) -> None:
    names = sorted(path.name for path in (shared / "photos" / "images").iterdir())[:COUNT]
    photos = tmp_path / "photos"
    photos.mkdir()
    for name in names:
        shutil.copy(shared / "photos" / "images" / name, photos)
    sparta("index", photos, "--out", tmp_path / "index")
    sparta("publish", tmp_path / "index", "--out", tmp_path / "site")
    with opened(browser, tmp_path / "site") as page:
        page.locator("#q").fill("two dogs run on the grass")
        page.keyboard.press("Enter")
        check(page, tmp_path / "index", "two dogs run on the grass")
