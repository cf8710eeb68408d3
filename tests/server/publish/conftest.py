"""A site with the script that searches, and a page of it in a browser."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from eval.bench.publishing.hosts import hosting
from sparta.tokenizer import WordPieceTokenizer
from tests.indexer.vocabulary import small_tokenizer
from tests.server.publish.collections import write_script


@pytest.fixture(scope="session")
def tokenizer() -> WordPieceTokenizer:
    return small_tokenizer()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    write_script(folder)
    return folder


@pytest.fixture(scope="module", params=[True, False], ids=["ranges", "whole files"])
def blank(request: pytest.FixtureRequest, browser: Browser, site: Path) -> Iterator[Page]:
    """An empty page of the site, on a host that answers range requests or on Python's own."""
    with hosting(site, request.param) as address:
        page = browser.new_page(base_url=address)
        page.goto("/blank.html")
        yield page
        page.close()
