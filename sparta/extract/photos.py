"""Find photos in a folder and decode them into upright RGB, or give the reason why not.

Worker processes decode, and may die without ending the run.
"""

from __future__ import annotations

import gc
import hashlib
import multiprocessing
import os
import random
import signal
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from ctypes import Array, c_char
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import cycle
from multiprocessing.sharedctypes import RawArray
from pathlib import Path
from shlex import quote
from typing import Any, NamedTuple, TypeAlias
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from sparta.addresses import UnreachableError, is_remote
from sparta.errors import InputError
from sparta.extract.image_files import PhotoError, load_photo, readable_status, reason_of
from sparta.features.record import Skipped
from sparta.features.store import Stamps
from sparta.progress import Notice, no_notice

_NAMES = "jpg jpeg jpe jfif png webp gif bmp tif tiff avif heic heif hif ppm pgm jp2 dng"
SUFFIXES = frozenset(f".{name}" for name in _NAMES.split())
_RAW = "3fr arw cr2 cr3 crw dcr erf iiq kdc mef mos mrw nef nrw orf pef raf raw rw2 rwl srw x3f"
PASSED_OVER = {".jxl": "JPEG XL", **{f".{name}": "RAW" for name in _RAW.split()}}
# Names of folders with copies, thumbnails and deleted photos; hidden ones are left out as well.
_NOT_PHOTOS = frozenset(
    ("@eadir", "@recycle", "#recycle", "@recently-snapshot", "#snapshot", "@sharesnap", "@tmp")
) | {"$recycle.bin", "recycler", "system volume information", "__macosx", "lost+found"}
NO_MEDIA = ".nomedia"  # in a folder whose files are no photos of the user's
MOST_WORKERS = 16
SLOW = 5.0  # seconds after which a photo that is being decoded is named
NAME = 512  # bytes of its path at most
Names: TypeAlias = Any  # a shared array of arrays of characters
_names: Names  # in a worker


class Crop(NamedTuple):
    """The part of a photo to use.

    Attributes:
        box: x1, y1, x2, y2 relative to the upright photo.
        mirrored: whether left and right change places.
    """

    box: tuple[float, float, float, float]
    mirrored: bool


@dataclass(frozen=True)
class Augmentation:
    """A deterministic change of each photo: test-time augmentation, and several copies in training.

    Attributes:
        name: "plain", "flip" (mirrored) or "crop:SEED" (half to all of the area, its shape
            between 3:4 and 4:3 of the photo's, mirrored half of the time). A crop depends on the
            seed and the image id alone, so that reruns agree.
    """

    name: str

    def __post_init__(self) -> None:
        kind, _, seed = self.name.partition(":")
        if self.name not in ("plain", "flip") and not (kind == "crop" and seed.isdecimal()):
            raise InputError(
                f"--augmentation {self.name!r}: expected plain, flip or crop:SEED, as crop:1"
            )

    def of(self, image_id: str) -> Crop:
        """The part of a photo to use."""
        if not self.name.startswith("crop:"):
            return Crop((0.0, 0.0, 1.0, 1.0), self.name == "flip")
        key = hashlib.sha256(f"{self.name}:{image_id}".encode()).digest()
        rng = random.Random(int.from_bytes(key))
        area, shape = rng.uniform(0.5, 1.0), rng.uniform(3 / 4, 4 / 3)
        width, height = min(1.0, (area * shape) ** 0.5), min(1.0, (area / shape) ** 0.5)
        left, top = rng.uniform(0, 1 - width), rng.uniform(0, 1 - height)
        return Crop((left, top, left + width, top + height), rng.random() < 0.5)


@dataclass(frozen=True)
class Photo:
    """A decoded photo, stretched to a square.

    Attributes:
        image_id: path relative to the photos' folder.
        pixels: [side, side, 3] uint8 RGB.
        width: of the upright photo in pixels.
        height: of the upright photo in pixels.
        large: [3, height, width] uint8 RGB, as a detector requires it; None without one.
        warning: as of an `UprightPhoto`.
    """

    image_id: str
    pixels: NDArray[np.uint8]
    width: int
    height: int
    large: NDArray[np.uint8] | None = None
    warning: str = ""


Decoded: TypeAlias = list[Photo | Skipped]


@dataclass(frozen=True)
class Decoder:
    """Turns image ids into photos of one size; small enough to send to worker processes.

    Attributes:
        folder: of the photos.
        side: of the square.
        resample: Pillow's filter for it.
        augmentation: how each photo is mirrored and cropped.
        resize: resizes photos for a detector, if there is one.
    """

    folder: Path
    side: int
    resample: int
    augmentation: Augmentation
    resize: Callable[[Image.Image], NDArray[np.uint8]] | None = None

    def __call__(self, image_ids: list[str]) -> Decoded:
        """Decode photos; one that cannot be used becomes its reason."""
        return [self.decode(image_id) for image_id in image_ids]

    def decode(self, image_id: str, crop: Crop | None = None) -> Photo | Skipped:
        """Decode one photo as the augmentation, or else `crop`, cuts and mirrors it.

        Raises:
            UnreachableError: if another machine has the photos, and does not answer.
        """
        if unnamed := not_utf8(image_id):
            return unnamed
        try:
            box, mirrored = crop or self.augmentation.of(image_id)
            needed = 0 if self.resize else self.side
            photo = load_photo(self.folder / image_id, needed)
            image, corners = photo.image, photo.part(box)
            small = image.resize((self.side, self.side), Image.Resampling(self.resample), corners)
            pixels = np.asarray(small)[:, ::-1] if mirrored else np.asarray(small)
            large = None
            if self.resize:
                shown = image.crop(corners)
                large = self.resize(ImageOps.mirror(shown) if mirrored else shown)
            size = photo.width, photo.height
            return Photo(image_id, np.ascontiguousarray(pixels), *size, large, photo.warning)
        except UnreachableError:
            raise
        except Exception as error:  # anything may come out of a damaged file
            return Skipped(image_id, reason_of(error))


# ---- the files of a folder -----------------------------------------------------------------------


def list_photos(
    folder: Path, ids: Sequence[str] | None = None, notice: Notice = no_notice
) -> dict[str, list[int]]:
    """The stamps of a folder's photos, as JSON has them, by rising id; or those of some ids.

    `notice` gets a line if photos lead out of the folder. Raises InputError as `find_photos`, and
    if the folder's path is not text.
    """
    ids = find_photos(folder, notice=notice) if ids is None else ids
    if not is_remote(folder) and (unnamed := not_utf8(os.path.realpath(folder))):
        raise InputError(f"{unnamed.image_id}: the path is not UTF-8; rename the folder")
    if outside := links_outside(folder, ids):
        notice(
            f"{folder}: {outside:,} of {len(ids):,} photos are links that lead out of the folder; "
            "a server will not show them"
        )
    return {image_id: list(stamp_of(folder / image_id)) for image_id in ids}


class Choice(NamedTuple):
    """Which photos of a folder to take.

    A pattern such as *.png, raw or 2019/* names a file or a folder by name, or by path below the
    folder that is walked, or below the folder of an index that this is a part of.

    Attributes:
        include: taken although it is hidden, in a folder such as @eaDir, or beside .nomedia.
        exclude: not taken.
        below: the part that is walked, with a slash at the end; "" for a whole folder.
    """

    include: Sequence[str] = ()
    exclude: Sequence[str] = ()
    below: str = ""

    def takes(self, path: str, hidden: bool) -> bool:
        """Whether to take a path, which is left out by default if it is `hidden`."""
        taken = not hidden or _matches(path, self.below, self.include)
        return taken and not self.excludes(path)

    def excludes(self, path: str) -> bool:
        """Whether a pattern leaves a path out."""
        return _matches(path, self.below, self.exclude)

    def __str__(self) -> str:
        named = zip(("--include", "--exclude"), (self.include, self.exclude), strict=True)
        return " ".join(f"{flag} {quote(one)}" for flag, own in named for one in own if one)


DEFAULT = Choice()


def _matches(path: str, below: str, patterns: Sequence[str]) -> bool:
    if not patterns:
        return False
    parts, before = normalize("NFC", path).split("/"), normalize("NFC", below)
    paths = ["/".join(parts[:end]) for end in range(1, len(parts) + 1)]
    names = [*parts, *paths, *(before + one for one in paths)]
    wanted = [normalize("NFC", one).removeprefix("**/").rstrip("/") for one in patterns]
    return any(fnmatchcase(name, one) for one in wanted for name in names)


def find_photos(folder: Path, choice: Choice = DEFAULT, notice: Notice = no_notice) -> list[str]:
    """Sorted ids of everything in a folder, at any depth, that is named like a photo.

    Paths that cannot be read are among them, folders too, so that they are reported and not
    overlooked. `notice` gets a line if there are photos of formats that are not read.

    Raises:
        InputError: if the folder does not exist or holds no photo.
    """
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder; give the folder that holds the photos")
    passed: Counter[str] = Counter()
    entries = list(walk_photos(folder, choice, passed))
    if passed:
        notice(f"{folder}: {passed_over(passed)}")
    if all(error for _, error in entries):
        closed = [f"; {path or '.'}: {reason_of(error)}" for path, error in entries if error]
        suffixes = ", ".join(sorted(SUFFIXES))
        raise InputError(f"{folder} holds no photo ({suffixes}){''.join(closed)}")
    return sorted({path or "." for path, _ in entries})


def passed_over(passed: Counter[str]) -> str:
    """How many photos are of formats that are not read, in words."""
    counts = ", ".join(f"{count:,} {name}" for name, count in sorted(passed.items()))
    return f"passed over {counts}, which cannot be read: export them as JPEG"


def walk_photos(
    folder: Path,
    choice: Choice = DEFAULT,
    passed: Counter[str] | None = None,
    beside: set[str] | None = None,
) -> Iterator[tuple[str, OSError | None]]:
    """Paths in a folder, at any depth, that are named like photos, whatever they lead to.

    Links to folders are not followed. A folder that is named like a photo counts as one if it holds
    neither photos nor folders. `passed` counts photos of formats that are not read, `beside` gets
    files that may say something about a photo.

    Yields:
        path relative to the folder, and None; or the path of a folder that cannot be read, or not
        to its end ("" for the folder itself), and why.
    """
    if is_remote(folder):
        start = len(f"{folder}/")
        names = [str(path)[start:] for path in folder.rglob("*")]
        bare = {name.removesuffix(NO_MEDIA) for name in names if name.endswith(f"/{NO_MEDIA}")}
        for name in names:
            hidden = any(map(_is_hidden, name.split("/"))) or name.startswith(tuple(bare))
            if choice.takes(name, hidden) and _is_photo(name, passed):
                yield name, None
        return
    waiting = [("", False)]  # without recursion, which a deep folder would end
    while waiting:
        inside, hidden = waiting.pop()
        entries: list[os.DirEntry[str]] = []
        useless = _is_photo(inside)
        try:
            with os.scandir(folder / inside) as opened:
                entries.extend(opened)  # those before an error, too
        except OSError as error:
            yield inside, error
            useless = False
        hidden = hidden or (bool(inside) and any(entry.name == NO_MEDIA for entry in entries))
        for entry in entries:
            path = f"{inside}/{entry.name}" if inside else entry.name
            aside = hidden or _is_hidden(entry.name)
            taken = choice.takes(path, aside)
            try:
                is_folder = entry.is_dir(follow_symlinks=False)
            except OSError as error:
                if taken:
                    yield path, error  # it may be a folder with photos
                continue
            if is_folder and (taken or choice.include):
                waiting.append((path, aside))
            elif taken and not is_folder and _is_photo(path, passed):
                yield path, None
            elif beside is not None and path.endswith((".xmp", ".json")):
                beside.add(path)
            useless = useless and not is_folder and not _is_photo(path)
        if useless and choice.takes(inside, hidden):
            yield inside, None


def is_listed(folder: Path, image_id: str) -> bool:
    """Whether `walk_photos` finds a photo of a folder on this machine by default."""
    parents = [folder / one for one in Path(image_id).parents[:-1]]
    hidden = any(map(_is_hidden, image_id.split("/")))
    return _is_photo(image_id) and not hidden and not any((p / NO_MEDIA).exists() for p in parents)


def not_utf8(image_id: str) -> Skipped | None:
    """Why a path cannot be an id, None if it can: ids are text."""
    try:
        image_id.encode()
    except UnicodeEncodeError:
        name = os.fsencode(image_id).decode(errors="backslashreplace")
        return Skipped(name, "the file name is not UTF-8")
    return None


def _is_photo(path: str, passed: Counter[str] | None = None) -> bool:
    """Whether a path is named like a photo; `passed` counts one that is not read."""
    suffix = Path(path).suffix.lower()
    if passed is not None and suffix in PASSED_OVER:
        passed[PASSED_OVER[suffix]] += 1
    return suffix in SUFFIXES


def _is_hidden(name: str) -> bool:
    dotted = name.startswith(".") and name not in (".", "..")  # which keys of a bucket may have
    return dotted or name.lower() in _NOT_PHOTOS


class Stamp(NamedTuple):
    """What changes when a file is replaced, or can be read again; both -1 if it cannot be read."""

    bytes: int
    mtime_ns: int


UNKNOWN = Stamp(-1, -1)


def read_stamp(path: Path) -> Stamp:
    """The stamp of a photo's file; PhotoError if it is not regular, OSError if not readable."""
    status = path.stat() if is_remote(path) else readable_status(path)
    return Stamp(status.st_size, status.st_mtime_ns)


def stamp_of(path: Path) -> Stamp:
    """The stamp of a photo's file, unknown if it cannot be read."""
    try:
        return read_stamp(path)
    except (OSError, PhotoError):
        return UNKNOWN


def listing_hash(stamps: Stamps) -> str:
    """Hash of names and sizes."""
    digest = hashlib.sha256()
    for image_id, (size, _) in stamps.items():
        digest.update(os.fsencode(f"{image_id}\0{size}\0"))
    return digest.hexdigest()[:16]


def links_outside(folder: Path, ids: Iterable[str]) -> int:
    """How many photos are links that lead out of the folder."""
    if is_remote(folder):
        return 0
    inside = os.path.realpath(folder)
    links = (path for one in ids if os.path.islink(path := folder / one))  # noqa: PTH114
    # Unlike methods of `Path`, these functions raise nothing for circles and over-long names.
    return sum(not Path(os.path.realpath(path)).is_relative_to(inside) for path in links)


# ---- processes that decode -----------------------------------------------------------------------


def default_workers() -> int:
    """As many as the cores that this process may use.

    Decoding a photo of 12 megapixels takes longer than the network does. Where the network takes
    longer, workers wait, since they are only a few batches ahead.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return min(MOST_WORKERS, cores or 1)


def decode_all(
    decoder: Decoder, batches: Iterable[list[str]], workers: int, notice: Notice = no_notice
) -> Generator[Decoded]:
    """Decode batches of image ids, in order, a few ahead of the reader.

    A photo whose decoding kills its process is skipped; `notice` gets a line about one that takes
    long. Without workers this process decodes.
    """
    if workers == 0:
        yield from map(decoder, batches)
        return
    names: Names = RawArray(c_char * NAME, 2 * workers + 1)  # of the photo that each is at
    pool = _pool(workers, names)
    waiting: deque[tuple[list[str], int, Future[Decoded]]] = deque()
    rest = zip(batches, cycle(range(len(names))), strict=False)
    try:
        while True:
            while len(waiting) <= 2 * workers and (following := next(rest, None)) is not None:
                waiting.append((*following, _submit(pool, decoder, *following)))
            if not waiting:
                return
            batch, place, future = waiting.popleft()
            try:
                yield _result(future, names[place], notice)
            except BrokenProcessPool:
                pool.shutdown(cancel_futures=True)
                pool = _pool(workers, names)
                waiting = deque(
                    (ids, at, _submit(pool, decoder, ids, at)) for ids, at, _ in waiting
                )
                yield [_decode_alone(decoder, image_id) for image_id in batch]
    finally:
        pool.shutdown(cancel_futures=True)


def _result(future: Future[Decoded], name: Array[c_char], notice: Notice) -> Decoded:
    """The photos of a batch; `notice` gets a line where one photo is decoded for long."""
    before = told = b""
    while not wait([future], SLOW).done:
        if before == name.value != told:
            told = name.value
            notice(f"{told.decode(errors='replace')}: decoding it takes longer than {SLOW:g} s")
        before = name.value
    return future.result()


def _submit(
    pool: ProcessPoolExecutor, decoder: Decoder, batch: list[str], place: int
) -> Future[Decoded]:
    """Start a batch; a pool that is already broken raises when the result is requested."""
    try:
        return pool.submit(_decode_named, decoder, batch, place)
    except BrokenProcessPool as error:
        failed: Future[Decoded] = Future()
        failed.set_exception(error)
        return failed


def _decode_named(decoder: Decoder, batch: list[str], place: int) -> Decoded:
    """Decode a batch in a worker, and tell at a place of the names which photo it is at."""
    found: Decoded = []
    for image_id in batch:
        _names[place].value = os.fsencode(image_id)[: NAME - 1]
        found += decoder([image_id])
    return found


def _decode_alone(decoder: Decoder, image_id: str) -> Photo | Skipped:
    with _pool(1, None) as pool:
        try:
            return pool.submit(decoder.decode, image_id).result()
        except BrokenProcessPool:
            return Skipped(image_id, "decoding it killed the worker process")


def _pool(workers: int, names: Names) -> ProcessPoolExecutor:
    # Forked workers need no importable __main__; they only run Pillow and numpy, which is safe
    # beside the threads of the parent.
    method = "fork" if sys.platform == "linux" else "spawn"
    context = multiprocessing.get_context(method)
    return ProcessPoolExecutor(workers, context, _start_worker, (names,))


def _start_worker(names: Names) -> None:
    """Leave Ctrl-C to the parent, and end with it even if it is killed."""
    global _names
    _names = names
    # What the parent left to the garbage collector may need threads that are not here.
    gc.freeze()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
