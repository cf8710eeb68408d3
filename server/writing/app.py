"""The application of the writer process, for the requests that workers pass on.

Workers decide who may write; this application answers whoever reaches its socket.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from io import BytesIO
from pathlib import Path
from threading import Condition, Lock
from time import monotonic, sleep

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool

from indexer.manifest import check_whole, index_folders, located
from indexer.state import index_version, place_of
from indexer.store.changes import Add, Change, Delete
from indexer.store.images import UnknownImageError
from server import problems
from server.photo_files import check_photo
from server.problems import ProblemError
from server.requests import IMAGE_PATH, MANY, problem_of, read_json, tag_of
from server.schemas import BatchAnswer, BatchError, DeleteAnswer, WriteAnswer
from server.writing.bodies import FIELDS, IDS, IMAGE, LINE, BatchLine, ImageBody
from server.writing.forward import COMMIT, PLACE, REPLACED, Board
from server.writing.index import NOTHING, PhotoEncoder, WritableIndex, Written
from sparta.errors import InputError
from sparta.files import FULL, PATIENCE, TURN, BusyError, UnsureError, is_full

Answer = WriteAnswer | DeleteAnswer | BatchAnswer
Task = Callable[[WritableIndex], tuple[Answer, Written]]

ATTEMPTS = 5  # to write to an index that is replaced meanwhile
AT_ONCE = 256  # lines of a batch that are written together
MOST_PIXELS = 1_000_000_000  # of all photos of a batch
LATER = {"Retry-After": "5"}  # a command that writes takes longer than a server
JSON = ("application/json", "application/merge-patch+json")

log = logging.getLogger(__name__)


class Writing:
    """The index, opened for the first request, and again after a failure or a switched alias."""

    shard = False  # whether it is a shard, which gets its own images alone

    def __init__(self, folder: Path, models: Sequence[str], board: Board) -> None:
        self.folder, self._models, self._board = folder, models, board
        self._index: WritableIndex | None = None
        self._encoders: dict[tuple[int, str], PhotoEncoder] = {}  # at most one
        self._opening, self._choosing = Lock(), Lock()
        self._users, self._unused = 0, Condition()  # requests that the index is used by
        self._running, self._last = 0, monotonic()

    async def answer(self, request: Request, task: Task) -> Response:
        """Change the index, and wait until the change can be found if the request asks for it."""
        self._running += 1
        try:
            wait = request.query_params.get("refresh", "wait") == "wait"
            return await run_in_threadpool(self._answer, task, wait)
        finally:
            self._running -= 1
            self._last = monotonic()

    async def encode(self, photo: bytes) -> Response:
        """The terms of a photo with their impacts; the index is not opened for it."""
        self._running += 1
        try:
            impacts = await run_in_threadpool(lambda: self._encoder().impacts(photo))
        finally:
            self._running -= 1
            self._last = monotonic()
        return JSONResponse(impacts)

    def _encoder(self) -> PhotoEncoder:
        """Encodes as the index was built that the path leads to now."""
        folder = located(self.folder).resolve()
        key = place_of(folder), index_version(folder)
        with self._choosing:
            if key not in self._encoders:
                shard = index_folders(folder)[0]  # all are encoded alike
                self._encoders = {key: PhotoEncoder(shard, self._models)}
            return self._encoders[key]

    def _answer(self, task: Task, wait: bool) -> Response:
        for _ in range(ATTEMPTS):
            with self._used() as index:
                try:
                    response = _written(index, task, wait)
                except OSError as error:
                    if isinstance(error, UnsureError):
                        raise ProblemError("writing-unsure", str(error)) from error
                    if index.is_at(self.folder):
                        said = FULL if is_full(error) else error.strerror or error
                        detail = f"{said}: look at the server's disk"
                        raise ProblemError("writing-failed", detail) from error
                else:
                    # Nobody finds a change of an index whose place another one has taken.
                    if index.is_at(self.folder):
                        return response
        raise ProblemError("writing-failed", REPLACED)

    @contextmanager
    def _used(self) -> Iterator[WritableIndex]:
        """The index that the path leads to now; it is not closed until the block ends."""
        if not self._opening.acquire(timeout=PATIENCE):
            raise ProblemError("index-busy", "another program writes to it", headers=LATER)
        try:
            try:
                index = self._opened()
            except BusyError as error:
                raise ProblemError("index-busy", str(error), headers=LATER) from error
            except (InputError, OSError) as error:
                detail = FULL if is_full(error) else str(error)
                raise ProblemError("not-writable", detail) from error
            with self._unused:
                self._users += 1
        finally:
            self._opening.release()
        try:
            yield index
        finally:
            with self._unused:
                self._users -= 1
                self._unused.notify_all()

    def _opened(self) -> WritableIndex:
        if self._index is not None and not self._index.serves(self.folder):
            self._let_go(self._index)
        if self._index is None:
            if not self.shard:
                check_whole(self.folder)
            self._index = WritableIndex(self.folder, self._encoder(), self._board)
        return self._index

    def _let_go(self, index: WritableIndex) -> None:
        with self._unused:
            self._unused.wait_for(lambda: self._users == 0)
        self._index = None
        index.close()

    def hand_over(self) -> None:
        """Close the index if it is the turn of another server's writer, or of a command."""
        if self._opening.acquire(timeout=TURN):
            try:
                if self._index is not None and self._index.is_due(idle=not self._running):
                    self._let_go(self._index)
                    sleep(2 * TURN)  # the one that waits looks again
            except OSError as error:  # what was acknowledged is in the log
                log.warning("%s cannot be closed: %s", self.folder, error)
            finally:
                self._opening.release()

    @property
    def idle_seconds(self) -> float:
        """How long no request has run."""
        return 0.0 if self._running else monotonic() - self._last

    def close(self) -> None:
        """Commit and close the index."""
        if self._index is not None:
            self._index.close()


def _written(index: WritableIndex, task: Task, wait: bool) -> Response:
    """Write, wait until that is kept, or committed if that is asked for, and answer."""
    answer, change = task(index)
    headers = {}
    if wait:
        commit = index.wait(change)
        answer.index_version = index.version_of(commit.version)
        headers = {COMMIT: str(commit.number), PLACE: str(index.place)}
    else:
        index.keep(change)
    if isinstance(answer, WriteAnswer) and answer.result != "deleted":
        with suppress(UnknownImageError):  # deleted since
            headers["ETag"] = tag_of(index.metadata(answer.image_id))
    return Response(answer.model_dump_json(), headers=headers, media_type="application/json")


def create_app(writing: Writing) -> FastAPI:
    """An application that writes to an index, and closes it at shutdown."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(writing.close)

    app = FastAPI(openapi_url=None, lifespan=lifespan)
    problems.install(app, writing.folder)
    for kind in (ValidationError, InputError):
        app.add_exception_handler(kind, _refused)

    async def batch(request: Request) -> Response:
        body = await request.body()
        show = partial(problems.public, request)
        return await writing.answer(request, lambda index: _Batch(index, show).run(body))

    async def delete_many(request: Request) -> Response:
        body = await request.body()
        return await writing.answer(request, lambda index: _delete_many(index, body))

    async def encode(request: Request) -> Response:
        return await writing.encode(await request.body())

    async def one(request: Request) -> Response:
        body, changes = await request.body(), {"PUT": _put, "PATCH": _update, "DELETE": _delete}
        change = changes[request.method]
        return await writing.answer(request, lambda index: change(index, request, body))

    app.add_route("/v1/images/batch", batch, methods=["POST"])
    app.add_route("/v1/images/similar", encode, methods=["POST"])
    app.add_route("/v1/images/delete", delete_many, methods=["POST"])
    app.add_route(f"/v1/images{IMAGE_PATH}", one, methods=["PUT", "PATCH", "DELETE"])
    return app


def _refused(request: Request, error: Exception) -> Response:
    if isinstance(error, ValidationError):
        problem = ProblemError("invalid-parameter", problem_of(error), "body")
    else:
        problem = ProblemError("invalid-image", str(error))
    return problems.problem_response(request, problem)


# Each returns the answer and what to wait for. They raise `OSError` if the disk fails, and
# what the application has handlers for.


def _condition(index: WritableIndex, request: Request) -> Callable[[], None]:
    """What refuses a change whose request has a condition that is not met (RFC 9110, 13.1)."""
    image_id, tags = request.path_params["image_id"], request.headers.get("if-match")
    only_new, shown = request.headers.get("if-none-match") == "*", repr(image_id[:200])

    def check() -> None:
        found = set[str]()
        with suppress(UnknownImageError):
            found = {"*", tag_of(index.metadata(image_id))}
        if found and only_new:
            choose = "choose another id, or leave out If-None-Match"
            raise ProblemError("image-exists", f"image {shown} is in the index: {choose}")
        if tags is not None and found.isdisjoint(tag.strip() for tag in tags.split(",")):
            detail = f"image {shown} has not the ETag of If-Match: get it again"
            raise ProblemError("image-changed", detail, "if-match")

    return check


def _put(index: WritableIndex, request: Request, body: bytes) -> tuple[WriteAnswer, Written]:
    """Add an image, or replace it unless it must be new."""
    image_id = request.path_params["image_id"]
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    check = _condition(index, request)
    check()  # before anything is encoded or kept
    if media_type.startswith("image/") or media_type == "application/octet-stream":
        image = ImageBody.model_construct(photo=body, features=None, terms=None, metadata={})
    elif media_type in JSON:
        image = read_json(IMAGE, body)
    else:
        detail = "send a photo as image/jpeg (or other) or application/octet-stream, or JSON"
        raise ProblemError("unsupported-media", detail)
    [there], written = index.write([index.encode(image_id, image)], check)
    return WriteAnswer(image_id=image_id, result="replaced" if there else "created"), written


def _update(index: WritableIndex, request: Request, body: bytes) -> tuple[WriteAnswer, Written]:
    """Change fields of the metadata of an image."""
    image_id = request.path_params["image_id"]
    check = _condition(index, request)
    metadata, written = index.update(image_id, read_json(FIELDS, body), check)
    return WriteAnswer(image_id=image_id, result="updated", metadata=metadata), written


def _delete(index: WritableIndex, request: Request, _: bytes) -> tuple[WriteAnswer, Written]:
    """Delete an image."""
    image_id = request.path_params["image_id"]
    [there], written = index.write([Delete(image_id)], _condition(index, request))
    if not there:
        raise UnknownImageError(image_id)
    return WriteAnswer(image_id=image_id, result="deleted"), written


def _delete_many(index: WritableIndex, body: bytes) -> tuple[DeleteAnswer, Written]:
    """Delete the images of a list of ids; those that are not there are named in the answer."""
    given = read_json(IDS, body)
    ids = list(dict.fromkeys(given))
    there, written = index.write([Delete(image_id) for image_id in ids]) if ids else ([], NOTHING)
    missing = [image_id for image_id, known in zip(ids, there, strict=True) if not known]
    return DeleteAnswer(deleted=sum(there), missing=missing), written


class _Batch:
    """Writes the lines of a batch, in their order and many at once."""

    def __init__(self, index: WritableIndex, show: Callable[[str], str]) -> None:
        self._index, self._show = index, show
        self._counts: Counter[str] = Counter()
        self._errors: list[BatchError] = []
        self._waiting: list[tuple[int, Change]] = []
        self._written, self._pixels = NOTHING, 0

    def run(self, body: bytes) -> tuple[BatchAnswer, Written]:
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
        return BatchAnswer.model_validate({**self._counts, "errors": errors}), self._written

    def _take(self, number: int, line: bytes) -> None:
        image_id = None
        try:
            asked = read_json(LINE, line)
            image_id = asked.image_id
            change = self._change(asked)
            if change is None:
                self._write()  # the image may be among those that wait
                _, written = self._index.update(image_id, asked.metadata)
                self._written = self._written.then(written)
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
        there, written = self._index.write([change for _, change in waiting])
        self._written = self._written.then(written)
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
        self._errors.append(BatchError(line=line, image_id=image_id, detail=self._show(detail)))
