"""Aliases, which milvus-lite lacks, before a real client."""

from __future__ import annotations

from typing import Any

from pymilvus import MilvusException

from indexer.milvus.connection import Milvus

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
