"""An index divided into shards: a folder of plain indexes, and which of them has an image."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from indexer.manifest import FORMAT_VERSION, is_sharded, open_manifest, save_manifest
from indexer.parts import Parts

DIGEST = 8  # bytes of an id's hash


@dataclass(frozen=True)
class ShardsManifest:
    """`manifest.json` of a divided index. Every shard is an index in itself.

    Offsets, scale, vocabulary and kinds of fields are those of all images, in every shard.

    Attributes:
        format_version: of the folder's layout.
        package_version: of the program that divided it.
        created: when, ISO 8601, UTC.
        images: of all shards as they were built.
        shards: names of their folders; an image is in the one at the place of its `owner`.
        parts: none; files are listed by the shards.
    """

    format_version: int
    package_version: str
    created: str
    images: int
    shards: list[str]
    parts: Parts

    def save(self, folder: Path) -> None:
        """Write `folder/manifest.json`."""
        save_manifest(self, folder)

    @classmethod
    def open(cls, folder: Path) -> ShardsManifest:
        """Read a folder's manifest.

        Raises:
            InputError: if the folder is no divided index of this version.
        """
        return open_manifest(cls, folder, FORMAT_VERSION)


def shard_name(number: int) -> str:
    """The folder of a shard in a divided index."""
    return f"shard-{number:03d}"


def owner(image_id: str, shards: int) -> int:
    """Which of some shards has an image, if any has it.

    Args:
        image_id: any text.
        shards: how many there are.
    """
    content = image_id.encode(errors="surrogatepass")
    digest = hashlib.blake2b(content, digest_size=DIGEST).digest()
    return int.from_bytes(digest, "big") % shards


def index_folders(folder: Path) -> list[Path]:
    """The plain indexes that an index folder consists of: its shards, or the folder itself.

    Raises:
        InputError: if the folder is divided, and its manifest is damaged.
    """
    if not is_sharded(folder):
        return [folder]
    return [folder / name for name in ShardsManifest.open(folder).shards]
