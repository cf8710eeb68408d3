"""Fixtures: a connection to Milvus."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from indexer.milvus.connection import Milvus
from indexer.postings import Postings
from tests.indexer.random_postings import MakeIndex


@pytest.fixture(scope="session")
def milvus(uri: str) -> Iterator[Milvus]:
    milvus = Milvus(uri)
    yield milvus
    milvus.close()


@pytest.fixture
def live(tmp_path: Path, postings: Postings, make_index: MakeIndex) -> Path:
    return make_index(tmp_path / "index", Postings.of(list(postings)[:20]))
