"""A connection to the Milvus of this run."""

from collections.abc import Iterator

import pytest

from indexer.milvus.connection import Milvus


@pytest.fixture(scope="session")
def milvus(uri: str) -> Iterator[Milvus]:
    milvus = Milvus(uri)
    yield milvus
    milvus.close()
