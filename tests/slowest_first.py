"""Test files that take longest begin first, so that all processes end at about the same time."""

from pathlib import Path

import pytest

TESTS = Path(__file__).parent

# Half a minute or more each, on two cores; a file that is not named here runs where it always did.
SLOWEST = (
    "torture/test_torture.py",
    "server/publish/test_search.py",
    "sparta/visualsparta/test_shipped_photos.py",
    "server/test_page_adding.py",
    "indexer/encoding/test_scorers.py",
    "server/test_openapi.py",
    "server/test_page.py",
    "server/test_page_selection.py",
    "server/test_processes.py",
    "eval/bench/test_speed.py",
    "sparta/visualsparta/test_shipped_sample.py",
)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort the tests by file; those of one file stay in their order, and so do all other files."""
    places = {TESTS / name: place for place, name in enumerate(SLOWEST)}
    items.sort(key=lambda item: places.get(item.path, len(places)))
