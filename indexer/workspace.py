"""The unfinished state of an index, from which an interrupted build continues."""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import asdict
from pathlib import Path

import numpy as np

from indexer.manifest import is_index
from indexer.offsets import TermOffsets
from indexer.postings import Postings, PostingShard
from indexer.quantisation import QuantisationReport
from indexer.settings import IndexSettings
from sparta.atomic import finish_replacement, replace_folder
from sparta.errors import InputError

SETTINGS = "settings.sha256"


class Workspace:
    """`OUT.building`: term offsets and finished shards of postings.

    Attributes:
        index: where the index is written; absent when the workspace is opened.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.index = folder / "index"

    @classmethod
    def open(cls, out: Path, settings: IndexSettings) -> Workspace:
        """The workspace of an index folder, emptied unless made with the same settings.

        Raises:
            InputError: if `OUT.building` was not made by a build.
        """
        folder = out.with_name(out.name + ".building")
        fingerprint = hashlib.sha256(json.dumps(asdict(settings)).encode()).hexdigest()
        mark = folder / SETTINGS
        if folder.exists() and not mark.is_file() and any(folder.iterdir()):
            raise InputError(f"{folder} is in the way and was not made by sparta index: remove it")
        if not mark.is_file() or mark.read_text() != fingerprint:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            mark.write_text(fingerprint)
        work = cls(folder)
        # An unfinished Lucene index is written again from the shards, which is the fast part.
        shutil.rmtree(work.index, ignore_errors=True)
        return work

    def load_offsets(self) -> TermOffsets | None:
        """The saved offsets, None if there are none."""
        path = self._folder / "offsets.npz"
        if not path.is_file():
            return None
        with np.load(path, allow_pickle=False) as file:
            return TermOffsets(file["offset"], float(file["largest"]))

    def save_offsets(self, offsets: TermOffsets) -> None:
        """Save the offsets, under a temporary name first."""
        unfinished = self._folder / "unfinished.npz"
        np.savez(unfinished, offset=offsets.offset, largest=offsets.largest)
        unfinished.replace(self._folder / "offsets.npz")

    def load_shard(self, number: int) -> PostingShard | None:
        """A saved shard, None if there is none of that number."""
        path = self._shard(number)
        if not path.is_file():
            return None
        report = json.loads(path.with_suffix(".json").read_text())
        return PostingShard(Postings.load(path), QuantisationReport(**report))

    def save_shard(self, number: int, shard: PostingShard) -> None:
        """Save a shard; the postings come last, so that a shard with postings is complete."""
        path = self._shard(number)
        path.with_suffix(".json").write_text(json.dumps(asdict(shard.report)))
        shard.postings.save(path)

    def _shard(self, number: int) -> Path:
        return self._folder / f"shard-{number:05d}.npz"

    def publish(self, out: Path) -> None:
        """Put the finished index in its place, and remove the workspace."""
        replace_folder(self.index, out)
        shutil.rmtree(self._folder)


def check_target(out: Path) -> None:
    """Refuse to replace anything but an index.

    Raises:
        InputError: if `out` is a file, or a folder that contains something else.
    """
    finish_replacement(out, is_index)
    if out.exists() and not (out.is_dir() and (is_index(out) or not any(out.iterdir()))):
        raise InputError(f"{out} exists and is not an index: choose another --out or remove it")
