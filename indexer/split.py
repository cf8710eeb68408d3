"""Divides an index into shards: each an index in itself, with the settings of the whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import fields
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import numpy as np

from indexer.encoding.impacts import MEANS
from indexer.fields.kinds import Kind
from indexer.fields.store import read_kinds
from indexer.index_writer import write_index
from indexer.lucene.reader import LuceneIndex
from indexer.manifest import FORMAT_VERSION, OFFSETS, Manifest
from indexer.parts import LUCENE
from indexer.postings import Postings, PostingShard
from indexer.search.fields import open_fields
from indexer.settings import IndexSettings
from indexer.shards import ShardsManifest, owner, shard_name
from sparta.errors import InputError
from sparta.progress import Progress, no_progress
from sparta.tokenizer import WordPieceTokenizer
from sparta.word_tables import WordTables

AT_ONCE = 20_000  # images that are read together


def split_index(whole: Path, out: Path, shards: int, progress: Progress = no_progress) -> None:
    """Write the images of an index as shards, by a hash of their ids.

    Args:
        whole: an index as it was built.
        out: folder for the shards; must not exist.
        shards: how many.
        progress: stage "divide", in images.

    Raises:
        InputError: if the index was written to or is damaged, or a shard would have no image.
    """
    manifest = Manifest.open(whole)
    if manifest.live:
        raise InputError(f"{whole} was written to since it was built: build it again to divide it")
    with closing(LuceneIndex(whole / LUCENE)) as lucene:
        owners = [owner(lucene.stored(n).image_id, shards) for n in range(lucene.documents)]
        if missing := sorted({*range(shards)} - {*owners}):
            raise InputError(
                f"--shards {shards}: of {len(owners)} images none is in shard {missing[0]}; make "
                "fewer shards"
            )
        out.mkdir(parents=True)
        kinds = {**read_kinds(whole), **open_fields(whole, lucene).kinds}
        done = 0
        for number in range(shards):
            documents = [n for n, own in enumerate(owners) if own == number]
            read = _read(lucene, documents, _vocabulary(whole))
            folder = out / shard_name(number)
            _write(whole, manifest, folder, read, kinds, len(documents))
            done += len(documents)
            progress("divide", done, len(owners))
    names = [shard_name(number) for number in range(shards)]
    ShardsManifest(
        format_version=FORMAT_VERSION,
        package_version=version("visualsparta"),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        images=len(owners),
        shards=names,
        parts={},
    ).save(out)


def _vocabulary(folder: Path) -> list[str]:
    return WordPieceTokenizer.from_folder(folder).vocabulary


def _read(
    lucene: LuceneIndex, documents: Sequence[int], vocabulary: Sequence[str]
) -> Iterator[PostingShard]:
    for first in range(0, len(documents), AT_ONCE):
        images = lucene.images(documents[first : first + AT_ONCE], vocabulary)
        yield PostingShard(Postings.of(list(images)))


def _write(
    whole: Path,
    manifest: Manifest,
    folder: Path,
    read: Iterator[PostingShard],
    kinds: Mapping[str, Kind],
    images: int,
) -> None:
    """Write one shard, with what the whole index has besides images."""
    names = [field.name for field in fields(IndexSettings)]
    write_index(
        folder,
        read,
        WordPieceTokenizer.from_folder(whole),
        IndexSettings(**{name: getattr(manifest, name) for name in names}),
        np.load(whole / OFFSETS),
        manifest.scale,
        images=images,
        means=np.load(whole / MEANS),
        tables=WordTables.open(whole),
        kinds=kinds,
    )
