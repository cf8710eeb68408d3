"""The application of the writer process, for the requests that workers pass on.

Workers decide who may write; this application answers whoever reaches its socket.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from threading import Condition, Lock
from time import monotonic

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool

from indexer.shards import index_folders
from indexer.state import index_version, place_of
from indexer.store.images import UnknownImageError
from server import problems
from server.image_ids import IMAGE
from server.json_bodies import problem_of
from server.problems import ProblemError, unknown_image
from server.schemas import BatchAnswer, DeleteAnswer, WriteAnswer
from server.writing import requests
from server.writing.board import COMMIT, PLACE, REPLACED, Board
from server.writing.encoding import PhotoEncoder
from server.writing.index import ExistingImageError, WritableIndex
from sparta.errors import InputError

Answer = WriteAnswer | DeleteAnswer | BatchAnswer
Task = Callable[[WritableIndex], tuple[Answer, int]]

ATTEMPTS = 5  # to write to an index that is replaced meanwhile


class Writing:
    """The index, opened for the first request, and again after a failure or a switched alias.

    Args:
        folder: of the index.
        models: that it was built with.
        board: where commits are announced.
    """

    def __init__(self, folder: Path, models: Sequence[str], board: Board) -> None:
        self._folder, self._models, self._board = folder, models, board
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
        folder = self._folder.resolve()
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
                    if index.is_at(self._folder):
                        detail = f"{error}: look at the server's disk"
                        raise ProblemError("writing-failed", detail) from error
                else:
                    # Nobody finds a change of an index whose place another one has taken.
                    if index.is_at(self._folder):
                        return response
        raise ProblemError("writing-failed", REPLACED)

    @contextmanager
    def _used(self) -> Iterator[WritableIndex]:
        """The index that the path leads to now; it is not closed until the block ends."""
        with self._opening:
            try:
                index = self._opened()
            except (InputError, OSError) as error:
                raise ProblemError("not-writable", str(error)) from error
            with self._unused:
                self._users += 1
        try:
            yield index
        finally:
            with self._unused:
                self._users -= 1
                self._unused.notify_all()

    def _opened(self) -> WritableIndex:
        if self._index is not None and not self._index.serves(self._folder):
            with self._unused:
                self._unused.wait_for(lambda: self._users == 0)
            former, self._index = self._index, None
            former.close()
        if self._index is None:
            self._index = WritableIndex(self._folder, self._encoder(), self._board)
        return self._index

    @property
    def idle_seconds(self) -> float:
        """How long no request has run."""
        return 0.0 if self._running else monotonic() - self._last

    def close(self) -> None:
        """Commit and close the index."""
        if self._index is not None:
            self._index.close()


def _written(index: WritableIndex, task: Task, wait: bool) -> Response:
    """Write, wait for the commit if that is asked for, and answer."""
    answer, number = task(index)
    headers = {}
    if wait:
        commit = index.wait(number)
        answer.index_version = f"{index.version}.{commit.version}"
        headers = {COMMIT: str(commit.number), PLACE: str(index.place)}
    return Response(answer.model_dump_json(), headers=headers, media_type="application/json")


def create_app(writing: Writing) -> FastAPI:
    """An application that writes to an index, and closes it at shutdown."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(writing.close)

    app = FastAPI(openapi_url=None, lifespan=lifespan)
    problems.install(app)
    app.add_exception_handler(ValidationError, _unreadable)
    app.add_exception_handler(InputError, _unusable)
    app.add_exception_handler(UnknownImageError, _unknown)
    app.add_exception_handler(ExistingImageError, _existing)

    async def batch(request: Request) -> Response:
        body = await request.body()
        return await writing.answer(request, lambda index: requests.Batch(index).run(body))

    async def delete_many(request: Request) -> Response:
        body = await request.body()
        return await writing.answer(request, lambda index: requests.delete_many(index, body))

    async def put(request: Request) -> Response:
        body, image_id = await request.body(), request.path_params["image_id"]
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        only_new = request.headers.get("if-none-match") == "*"
        return await writing.answer(
            request, lambda index: requests.put(index, image_id, kind, body, only_new)
        )

    async def encode(request: Request) -> Response:
        return await writing.encode(await request.body())

    async def update(request: Request) -> Response:
        body, image_id = await request.body(), request.path_params["image_id"]
        return await writing.answer(request, lambda index: requests.update(index, image_id, body))

    async def delete(request: Request) -> Response:
        image_id = request.path_params["image_id"]
        return await writing.answer(request, lambda index: requests.delete(index, image_id))

    one = f"/v1/images{IMAGE}"
    app.add_route("/v1/images/batch", batch, methods=["POST"])
    app.add_route("/v1/images/similar", encode, methods=["POST"])
    app.add_route("/v1/images/delete", delete_many, methods=["POST"])
    app.add_route(one, put, methods=["PUT"])
    app.add_route(one, update, methods=["PATCH"])
    app.add_route(one, delete, methods=["DELETE"])
    return app


def _unreadable(request: Request, error: Exception) -> Response:
    assert isinstance(error, ValidationError)
    problem = ProblemError("invalid-parameter", problem_of(error), "body")
    return problems.problem_response(request, problem)


def _unusable(request: Request, error: Exception) -> Response:
    return problems.problem_response(request, ProblemError("invalid-image", str(error)))


def _unknown(request: Request, error: Exception) -> Response:
    return problems.problem_response(request, unknown_image(request.path_params["image_id"]))


def _existing(request: Request, error: Exception) -> Response:
    image_id = request.path_params["image_id"][:200]
    detail = f"image {image_id!r} is in the index: choose another id, or leave out If-None-Match"
    return problems.problem_response(request, ProblemError("image-exists", detail))
