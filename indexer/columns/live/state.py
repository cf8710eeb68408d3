"""Which segments a live index has, which of their images were deleted, and which to merge."""

from __future__ import annotations

import re
import shutil
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from indexer.columns.image_table import ImageTable
from indexer.columns.layout import image_count
from indexer.columns.live.newest import CAPACITY
from indexer.columns.manifest import FOLDER, has_columns
from indexer.fields.kinds import Kind
from indexer.fields.part import stored_kinds
from indexer.fields.store import read_kinds
from indexer.live.changes import Add, Change, Delete
from indexer.live.commit import FOLDER as LIVE
from indexer.live.commit import log_numbers, log_path
from indexer.manifest import open_manifest, save_manifest
from indexer.parts import MANIFEST, Parts, check_small_parts, describe_parts
from sparta.atomic import find_work, recover, remove_work, replace_folder, work_folder
from sparta.checksum import sha256
from sparta.errors import InputError

FORMAT_VERSION = 2
_OURS = re.compile(r"\.?((?:state|segment)-\d{6})(?:\.work-\d+-[a-z0-9_]{8})?")
FAN = 4  # segments of a tier that are merged; the next tier's are so many times as large
WASTE = 0.5  # share of deleted images from which a segment is written again


@dataclass(frozen=True)
class ColumnState:
    """`live/state-000002/manifest.json`: the columns of an index as one of its logs begins.

    The folder has a file of bits for each segment with deleted images.

    Attributes:
        format_version: of the folder's layout.
        log: number of the change log with which later changes begin.
        segments: path in the index folder → SHA-256 of the manifest there.
        parts: file of deleted images → size and hash.
    """

    format_version: int
    log: int
    segments: Mapping[str, str]
    parts: Parts

    @classmethod
    def open(cls, index: Path, number: int) -> ColumnState:
        """Read a state by its number; 0 is that of an index as it was built.

        Raises:
            InputError: if it is missing or damaged, or so is the manifest of a segment.
        """
        if number == 0:
            if not has_columns(index):
                raise InputError(f"{index / FOLDER} is missing: build the index again")
            return cls(FORMAT_VERSION, 1, {FOLDER: sha256(index / FOLDER / MANIFEST)}, {})
        folder = state_folder(index, number)
        state = open_manifest(cls, folder, FORMAT_VERSION)
        check_small_parts(folder, state.parts)
        for name, seal in state.segments.items():
            path = index / name / MANIFEST
            if not path.is_file() or sha256(path) != seal:
                raise InputError(
                    f"{path} is missing, or not the one that {folder} lists: build the index again"
                )
        return state

    @classmethod
    def save(
        cls, index: Path, number: int, log: int, segments: Mapping[str, NDArray[np.bool_]]
    ) -> ColumnState:
        """Write and sync a state.

        Args:
            index: the index folder.
            number: of no state before.
            log: number of the change log with which later changes begin.
            segments: path in the index folder → which images are not deleted; a segment without
                any is not listed.
        """
        kept = {name: live for name, live in segments.items() if live.any()}
        out = state_folder(index, number)
        with work_folder(out) as work:
            made = work / out.name
            made.mkdir()
            for name, live in kept.items():
                if not live.all():
                    np.save(made / _bits(name), np.packbits(live))
            seals = {name: sha256(index / name / MANIFEST) for name in kept}
            state = cls(FORMAT_VERSION, log, seals, describe_parts(made))
            save_manifest(state, made)
            replace_folder(made, out, work)
        return state

    @property
    def may_need_merge(self) -> bool:
        """Whether there are segments enough for a merge, whatever their sizes."""
        return len(self.segments) >= FAN

    def live(self, index: Path, number: int, segment: str, images: int) -> NDArray[np.bool_]:
        """Which of a segment's images are not deleted.

        Raises:
            InputError: if the file does not fit.
        """
        if _bits(segment) not in self.parts:
            return np.ones(images, np.bool_)
        path = state_folder(index, number) / _bits(segment)
        bits = np.load(path, allow_pickle=False)
        if bits.dtype != np.uint8 or bits.shape != (-(-images // 8),):
            raise InputError(f"{path} is damaged: it is of another segment; build the index again")
        return np.unpackbits(bits, count=images).view(np.bool_)


def live_images(index: Path, number: int) -> dict[str, NDArray[np.bool_]]:
    """Which images of each segment of a state are not deleted."""
    state = ColumnState.open(index, number)
    return {
        name: state.live(index, number, name, image_count(index / name)) for name in state.segments
    }


def state_folder(index: Path, number: int) -> Path:
    """The folder of a state."""
    return index / LIVE / f"state-{number:06d}"


def segment_name(number: int) -> str:
    """The path of a segment in the index folder."""
    return f"{LIVE}/segment-{number:06d}"


def kinds_of(index: Path, segments: Iterable[str]) -> dict[str, Kind]:
    """The kinds of an index's fields: declared ones, then those of some segments in order."""
    kinds = read_kinds(index)
    for name in segments:
        kinds = stored_kinds(index / name) | kinds
    return kinds


def next_number(index: Path) -> int:
    """A number that no state, segment or unfinished folder of either has."""
    return 1 + max((int(match[1][-6:]) for match in _folders(index)), default=0)


def remove_unlisted(index: Path, numbers: Collection[int], making: Collection[int] = ()) -> None:
    """Remove other states than some, segments that these do not list, logs that they include.

    Only the writer of the index may call this.

    Args:
        index: the index folder.
        numbers: of the states.
        making: numbers of states and segments that are being written.
    """
    states = [ColumnState.open(index, number) for number in numbers]
    listed = {Path(name).name for state in states for name in state.segments}
    listed |= {state_folder(index, number).name for number in numbers}
    for match in _folders(index):
        out = index / LIVE / match[1]
        if int(out.name[-6:]) in making:
            continue
        if match[0] != out.name:
            recover(out)
            for left in find_work(out):
                remove_work(left)
        elif out.name not in listed:
            shutil.rmtree(out)
    if FOLDER not in listed and (index / FOLDER).is_dir():
        shutil.rmtree(index / FOLDER)
    first = min(state.log for state in states)
    for earlier in log_numbers(index):
        if earlier < first:
            log_path(index, earlier).unlink()


def _folders(index: Path) -> list[re.Match[str]]:
    """The names of states, segments, and work folders of what was to become one of them."""
    live = index / LIVE
    paths = list(live.iterdir()) if live.is_dir() else []
    matches = [_OURS.fullmatch(path.name) for path in paths if path.is_dir()]
    return [match for match in matches if match]


def _bits(segment: str) -> str:
    return f"{Path(segment).name}.npy"


def to_merge(sizes: Mapping[str, tuple[int, int]]) -> list[str]:
    """Which segments should be merged now, if any.

    Args:
        sizes: name → images, and how many of them are not deleted; where all are, the segment
            will not be listed again anyway.

    Returns:
        the segments of the lowest tier that is full, else one of mostly deleted images.
    """
    tiers: dict[int, list[str]] = {}
    sizes = {name: size for name, size in sizes.items() if size[1]}
    for name, (_, live) in sizes.items():
        tier = 0
        while live > CAPACITY * FAN**tier:
            tier += 1
        tiers.setdefault(tier, []).append(name)
    full = [names for _, names in sorted(tiers.items()) if len(names) >= FAN]
    wasteful = [[name] for name, (images, live) in sizes.items() if live < (1 - WASTE) * images]
    return next(iter(full + wasteful), [])


class KnownImages:
    """The images of a state of the columns, with changes since. Safe from any thread.

    One thread at a time changes it, while others look images up.

    Args:
        index: the index folder.
        state: number of the state.

    Raises:
        InputError: if the state is damaged.
    """

    def __init__(self, index: Path, state: int) -> None:
        self._index = index
        # By log, the newest last: id → metadata, None where an image was deleted.
        self._changes: dict[int, dict[str, dict[str, Any] | None]] = {}
        self.follow(state)

    def note(self, log: int, change: Change) -> None:
        """Change an image.

        Args:
            log: number of the log that has the change; not below that of the one before.
            change: of the image.
        """
        own = self._changes.setdefault(log, {})
        if isinstance(change, Delete):
            own[change.image_id] = None
        else:
            metadata = change.image.metadata if isinstance(change, Add) else change.metadata
            own[change.image_id] = metadata

    def follow(self, state: int) -> None:
        """Forget changes that a newer state has."""
        live = live_images(self._index, state)
        self._tables = [(ImageTable(self._index / name), own) for name, own in live.items()]
        first = ColumnState.open(self._index, state).log
        # After the tables, so that whoever misses a change here finds it there.
        self._changes = {log: own for log, own in self._changes.items() if log >= first}

    def metadata(self, image_id: str) -> Mapping[str, Any] | None:
        """An image's metadata, None if there is no such image."""
        for own in reversed(list(self._changes.values())):
            if image_id in own:
                changed: dict[str, Any] | None = own[image_id]
                return changed
        place = self._place(image_id)
        return None if place is None else place[0].stored(place[1]).metadata

    def __contains__(self, image_id: str) -> bool:
        """Whether there is an image; stored metadata is not read."""
        for own in reversed(list(self._changes.values())):
            if image_id in own:
                return own[image_id] is not None
        return self._place(image_id) is not None

    def _place(self, image_id: str) -> tuple[ImageTable, int] | None:
        """The table of the state that has an image, and its document number there."""
        for table, live in self._tables:
            document = table.document(image_id)
            if document is not None and live[document]:
                return table, document
        return None
