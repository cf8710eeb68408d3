"""The unfinished state of an index, from which an interrupted build continues."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from dataclasses import asdict
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from indexer.manifest import is_index
from indexer.offsets import TermOffsets
from indexer.parts import UPLOADS
from indexer.postings import Postings, PostingShard
from indexer.quantisation import QuantisationReport
from indexer.settings import IndexSettings
from sparta.atomic import (
    MARKER,
    find_work,
    make_work,
    recover,
    remove_entry,
    remove_work,
    replace_folder,
)
from sparta.errors import InputError

SETTINGS = "settings.sha256"
OFFSETS = "offsets.npz"


class Workspace:
    """A work folder of an index: term offsets and finished shards of postings.

    Attributes:
        index: where the index is written; absent when the workspace is opened.
        whole: where an index is written that is divided into shards at `index`.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        # A process of a killed run may still be writing its own unfinished index.
        self.index = folder / f"index-{secrets.token_hex(4)}"
        self.whole = folder / f"whole-{secrets.token_hex(4)}"

    @classmethod
    def open(cls, out: Path, settings: IndexSettings) -> Workspace:
        """The workspace of an index folder: an earlier run's with the same settings, or a new one.

        All others that earlier runs left are removed.
        """
        fingerprint = hashlib.sha256(json.dumps(asdict(settings)).encode()).hexdigest()
        found = None
        for folder in find_work(out):
            if found is None and _settings(folder) == fingerprint:
                found = folder
            else:
                remove_work(folder)
        if found is None:
            found = make_work(out)
            (found / SETTINGS).write_text(fingerprint)
        # An unfinished Lucene index is written again from the shards, which is the fast part.
        for entry in found.iterdir():
            if entry.name not in (MARKER, SETTINGS, OFFSETS) and not _is_shard(entry):
                remove_entry(entry)
        return cls(found)

    @property
    def size(self) -> int:
        """Bytes of what an earlier run saved."""
        return sum(path.stat().st_size for path in self._folder.iterdir())

    def load_offsets(self) -> TermOffsets | None:
        """The saved offsets, None if there are none or they are damaged."""
        try:
            with np.load(self._folder / OFFSETS, allow_pickle=False) as file:
                return TermOffsets(file["offset"], float(file["largest"]))
        except (OSError, ValueError, KeyError, EOFError, BadZipFile):
            return None

    def save_offsets(self, offsets: TermOffsets) -> None:
        """Save the offsets, under a temporary name first."""
        unfinished = self._folder / "unfinished.npz"
        np.savez(unfinished, offset=offsets.offset, largest=offsets.largest)
        unfinished.replace(self._folder / OFFSETS)

    def load_shard(self, number: int) -> PostingShard | None:
        """A saved shard, None if there is none of that number or it is damaged."""
        path = self._shard(number)
        try:
            report = QuantisationReport(**json.loads(path.with_suffix(".json").read_text()))
            return PostingShard(Postings.load(path), report)
        except (OSError, ValueError, TypeError):
            return None

    def save_shard(self, number: int, shard: PostingShard) -> None:
        """Save a shard; the postings come last, so that a shard with postings is complete."""
        path = self._shard(number)
        path.with_suffix(".json").write_text(json.dumps(asdict(shard.report)))
        shard.postings.save(path)

    def _shard(self, number: int) -> Path:
        return self._folder / f"shard-{number:05d}.npz"

    def publish(self, out: Path) -> None:
        """Put the finished index in its place, and remove the workspace."""
        replace_folder(self.index, out, self._folder)
        # First what a next run would continue from: it must not find half of the shards.
        (self._folder / SETTINGS).unlink()
        remove_work(self._folder)


def check_target(out: Path) -> None:
    """Put back an index that an interrupted run moved aside, and refuse to replace anything else.

    Raises:
        InputError: if `out` is a file, a folder that contains something else, or an index with
            photos that were sent to a server and are nowhere else.
    """
    recover(out)
    if sent := sum(map(os.path.isfile, (out / UPLOADS).rglob("*"))):
        raise InputError(
            f"{out / UPLOADS} has {sent:,} photos that were sent to a server, and building the "
            "index again would remove them: choose another --out, or move them away"
        )
    if out.exists() and not (out.is_dir() and (is_index(out) or not any(out.iterdir()))):
        raise InputError(f"{out} exists and is not an index: choose another --out or remove it")


def _settings(folder: Path) -> str | None:
    path = folder / SETTINGS
    return path.read_text() if path.is_file() else None


def _is_shard(path: Path) -> bool:
    return path.name.startswith("shard-") and path.suffix in (".npz", ".json")
