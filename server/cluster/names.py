"""What runs on a cluster, by name."""

from __future__ import annotations

import os
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from indexer.manifest import index_folders
from indexer.state import index_version

INGRESS = "sparta"  # the application that has the server's address
INDEX = "sparta-index-"  # and a version: the application with the shards of one index


@dataclass(frozen=True)
class Served:
    """An index on a cluster.

    Attributes:
        folder: of the index, the same on all machines.
        version: of the index.
        shards: how many.
    """

    folder: str
    version: str
    shards: int

    @classmethod
    def of(cls, index: Path) -> Served:
        """The index that a path leads to now.

        Raises:
            InputError: if it is damaged.
        """
        folder = index.resolve()  # an alias may be switched
        return cls(str(folder), index_version(folder), len(index_folders(folder)))

    @property
    def application(self) -> str:
        """The application with its shards; a copy in another folder has its own."""
        place = blake2b(os.fsencode(self.folder), digest_size=3).hexdigest()
        return f"{INDEX}{self.version}-{place}"


def shard_deployment(number: int) -> str:
    """The deployment that searches a shard."""
    return f"shard-{number:03d}"


def writer_deployment(number: int) -> str:
    """The deployment that writes to a shard."""
    return f"writer-{number:03d}"
