"""Connections to Milvus, with aliases too, which milvus-lite lacks."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

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


ALIAS_NOT_FOUND = 1600  # of Milvus's error codes


class WithAliases:
    """A client that resolves aliases itself, as a cluster does.

    Attributes:
        names: collections by alias.
    """

    def __init__(self, client: Any) -> None:
        self._client, self.names = client, dict[str, str]()

    def alter_alias(self, collection: str, alias: str, **named: Any) -> None:
        if alias not in self.names:
            from pymilvus import MilvusException

            raise MilvusException(ALIAS_NOT_FOUND, f"alias not found[alias={alias}]")
        self.names[alias] = collection

    def create_alias(self, collection: str, alias: str, **named: Any) -> None:
        self.names[alias] = collection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


def with_aliases(uri: str) -> tuple[Milvus, dict[str, str]]:
    """A connection with aliases, and these."""
    milvus = Milvus(uri)
    client = WithAliases(milvus.client)
    milvus.client = client
    return milvus, client.names
