"""The requests that change an index: what each asks, done, and its answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from io import BytesIO

from pydantic import ValidationError

from indexer.store.changes import Add, Change, Delete
from indexer.store.images import UnknownImageError
from server.json_bodies import MANY, problem_of, read_json
from server.problems import ProblemError
from server.schemas import BatchAnswer, BatchError, DeleteAnswer, WriteAnswer
from server.writing.bodies import FIELDS, IDS, IMAGE, LINE, BatchLine, ImageBody
from server.writing.index import WritableIndex
from server.writing.uploads import check_photo
from sparta.errors import InputError

AT_ONCE = 256  # lines of a batch that are written together
MOST_PIXELS = 1_000_000_000  # of all photos of a batch
JSON = ("application/json", "application/merge-patch+json")


def put(
    index: WritableIndex, image_id: str, media_type: str, body: bytes, only_new: bool
) -> tuple[WriteAnswer, int]:
    """Add an image, or replace it unless it must be new.

    Args:
        index: to write to.
        image_id: of the image.
        media_type: of the body.
        body: a photo by itself, or JSON; see `ImageBody`.
        only_new: whether an image with this id is left as it is.

    Returns:
        the answer, and the number of the change.

    Raises:
        ExistingImageError: if there is one, and the image must be new.
        ProblemError: if the body is something else, or has too many elements.
        ValidationError, InputError: if it cannot be read, or the image cannot be used.
        OSError: if the disk fails.
    """
    if only_new:  # before anything is encoded or kept
        index.check_new([image_id])
    if media_type.startswith("image/") or media_type == "application/octet-stream":
        image = ImageBody.model_construct(photo=body, features=None, terms=None, metadata={})
    elif media_type in JSON:
        image = read_json(IMAGE, body)
    else:
        detail = "send a photo as image/jpeg (or other) or application/octet-stream, or JSON"
        raise ProblemError("unsupported-media", detail)
    [there], number = index.write([index.encode(image_id, image)], only_new)
    return WriteAnswer(image_id=image_id, result="replaced" if there else "created"), number


def update(index: WritableIndex, image_id: str, body: bytes) -> tuple[WriteAnswer, int]:
    """Change fields of the metadata of an image.

    Raises:
        ValidationError, InputError: if the body cannot be read, or not be written.
        UnknownImageError: if there is no such image.
        OSError: if the disk fails.
    """
    metadata, number = index.update(image_id, read_json(FIELDS, body))
    return WriteAnswer(image_id=image_id, result="updated", metadata=metadata), number


def delete(index: WritableIndex, image_id: str) -> tuple[WriteAnswer, int]:
    """Delete an image.

    Raises:
        UnknownImageError: if there is no such image.
        OSError: if the disk fails.
    """
    [there], number = index.write([Delete(image_id)])
    if not there:
        raise UnknownImageError(image_id)
    return WriteAnswer(image_id=image_id, result="deleted"), number


def delete_many(index: WritableIndex, body: bytes) -> tuple[DeleteAnswer, int]:
    """Delete the images of a list of ids; those that are not there are named in the answer.

    Raises:
        ValidationError: if the body is no such list.
        OSError: if the disk fails.
    """
    given = read_json(IDS, body)
    ids = list(dict.fromkeys(given))
    there, number = index.write([Delete(image_id) for image_id in ids]) if ids else ([], 0)
    missing = [image_id for image_id, known in zip(ids, there, strict=True) if not known]
    return DeleteAnswer(deleted=sum(there), missing=missing), number


class Batch:
    """Writes the lines of a batch, in their order and many at once.

    Args:
        index: to write to.
    """

    def __init__(self, index: WritableIndex) -> None:
        self._index = index
        self._counts: Counter[str] = Counter()
        self._errors: list[BatchError] = []
        self._waiting: list[tuple[int, Change]] = []
        self._number = self._pixels = 0

    def run(self, body: bytes) -> tuple[BatchAnswer, int]:
        """Write all lines that can be written.

        Raises:
            ProblemError: if there are too many lines; none is written then.
            OSError: if the disk fails.
        """
        if body.count(b"\n") > MANY:
            detail = f"the batch has more than {MANY:,} lines: send it in parts"
            raise ProblemError("body-too-large", detail)
        for number, line in enumerate(BytesIO(body), start=1):
            if line.strip():
                self._take(number, line)
        self._write()
        errors = sorted(self._errors, key=lambda error: error.line)
        return BatchAnswer.model_validate({**self._counts, "errors": errors}), self._number

    def _take(self, number: int, line: bytes) -> None:
        image_id = None
        try:
            asked = read_json(LINE, line)
            image_id = asked.image_id
            change = self._change(asked)
            if change is None:
                self._write()  # the image may be among those that wait
                _, self._number = self._index.update(image_id, asked.metadata)
                self._counts["updated"] += 1
                return
        except (ValidationError, ValueError, UnknownImageError, ProblemError) as error:
            self._refuse(number, image_id, error)
            return
        self._waiting.append((number, change))
        if len(self._waiting) >= AT_ONCE:
            self._write()

    def _change(self, asked: BatchLine) -> Change | None:
        """What a line asks for; None for a change of metadata alone."""
        if asked.delete:
            return Delete(asked.image_id)
        if asked.photo is not None:
            self._count(check_photo(asked.photo).pixels)
        return self._index.encode(asked.image_id, asked) if asked.forms else None

    def _count(self, pixels: int) -> None:
        """Count the pixels of a photo, which take time to decode, whatever the file's size."""
        if self._pixels + pixels > MOST_PIXELS:
            most = f"{MOST_PIXELS // 10**6:,} megapixels"
            raise InputError(f"the photos of a batch have {most} at most: send it in another one")
        self._pixels += pixels

    def _write(self) -> None:
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return
        try:
            self._write_whole(waiting)
        except InputError:
            for one in waiting:
                try:
                    self._write_whole([one])
                except InputError as error:
                    self._refuse(one[0], one[1].image_id, error)

    def _write_whole(self, waiting: Sequence[tuple[int, Change]]) -> None:
        there, self._number = self._index.write([change for _, change in waiting])
        for (number, change), known in zip(waiting, there, strict=True):
            if isinstance(change, Add):
                self._counts["replaced" if known else "created"] += 1
            elif known:
                self._counts["deleted"] += 1
            else:
                self._refuse(number, change.image_id, UnknownImageError(change.image_id))

    def _refuse(self, line: int, image_id: str | None, error: Exception) -> None:
        detail = str(error)
        if isinstance(error, ValidationError):
            detail = problem_of(error)
        elif isinstance(error, UnknownImageError):
            detail = "the index has no such image"
        self._errors.append(BatchError(line=line, image_id=image_id, detail=detail))
