"""A site with the script that searches, and a page of it in a browser."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from sparta.tokenizer import TermTokenizer
from tests.indexer.vocabulary import small_tokenizer
from tests.server.publish.collections import hosting, write_script
from tests.server.publish.firefox import FirefoxPage, firefox_page


@pytest.fixture(scope="session")
def tokenizer() -> TermTokenizer:
    return small_tokenizer()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    write_script(folder)
    return folder


def empty_page(browser: Browser, site: Path, ranges: bool) -> Iterator[Page]:
    with hosting(site, ranges) as address:
        page = browser.new_page(base_url=address)
        page.goto("/blank.html")
        yield page
        page.close()


@pytest.fixture(scope="module")
def blank(browser: Browser, site: Path) -> Iterator[Page]:
    """An empty page of the site, on a host that answers range requests."""
    yield from empty_page(browser, site, True)


@pytest.fixture(scope="module")
def plain(browser: Browser, site: Path) -> Iterator[Page]:
    """The same on Python's own host, which does not."""
    yield from empty_page(browser, site, False)


@pytest.fixture(scope="module")
def firefox(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FirefoxPage]:
    """The same page in Firefox, on a host that answers range requests."""
    with hosting(site, True) as address, firefox_page(tmp_path_factory.mktemp("p")) as page:
        page.goto(f"{address}/blank.html")
        yield page
