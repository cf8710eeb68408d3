"""Fixtures: a server of Milvus."""

from collections.abc import Iterator

import pytest

from indexer.milvus.connection import Milvus
from tests.indexer.milvus.server import milvus_server


@pytest.fixture(scope="session")
def uri(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with milvus_server(tmp_path_factory.mktemp("milvus")) as uri:
        yield uri


@pytest.fixture(scope="session")
def milvus(uri: str) -> Iterator[Milvus]:
    milvus = Milvus(uri)
    yield milvus
    milvus.close()
