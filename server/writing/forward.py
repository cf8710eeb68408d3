"""How workers and the writer work together: what they share, and the requests passed on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from ctypes import Array, c_double, c_uint64
from dataclasses import dataclass
from multiprocessing.sharedctypes import RawArray
from time import monotonic
from typing import TYPE_CHECKING
from urllib.parse import quote

from fastapi import Request, Response

from server.monitoring.metrics import WriterCounts
from server.problems import ProblemError
from server.writing.bodies import Refresh

if TYPE_CHECKING:
    import httpx

COMMIT = "X-Commit"  # header of the writer: the number of the commit that workers are to show
PLACE = "X-Place"  # header of the writer: the place of the index that has it
REPLACED = "the index was replaced while it was written to: send the change again"
NOT_OPEN = 2**63  # shown by a worker that answers nothing yet: nobody waits for it
SHOWN_WITHIN = 60.0  # seconds for all workers to show a commit
ENCODING = 4  # photos that a worker has encoded at the same time
LOOK = 0.002  # seconds between two looks whether they do
PASSED_ON = ("content-type", "content-length", "if-match", "if-none-match")
ANSWERED = ("etag", "retry-after")  # headers of the writer's answers that are passed on
HOST = "http://writer"  # never looked up: requests go to the socket


class Board:
    """Shared memory that is passed to processes as they start.

    Each number has one writer, and a processor writes eight bytes at once, so there are no locks,
    which a killed process would hold for ever.
    """

    def __init__(self, workers: int) -> None:
        self._shown: Array[c_uint64] = RawArray("Q", [NOT_OPEN] * workers)
        self._places: Array[c_uint64] = RawArray("Q", workers)
        self._commit: Array[c_uint64] = RawArray("Q", 1)
        self._counts: Array[c_double] = RawArray("d", len(WriterCounts._fields))

    @property
    def commit(self) -> int:
        """How many commits the writer has made since the server started, of whatever index."""
        return int(self._commit[0])

    @property
    def counts(self) -> WriterCounts:
        """What the writer has done since the server started."""
        return WriterCounts(*self._counts)

    def count(self, **done: float) -> None:
        """The writer has done so much more of some of `WriterCounts`."""
        for name, more in done.items():
            self._counts[WriterCounts._fields.index(name)] += more

    def committed(self) -> int:
        """The writer has made a commit, which workers are to show at once; its number."""
        self._commit[0] += 1
        return self.commit

    def show(self, worker: int, commit: int, place: int = 0) -> None:
        """A worker shows what was committed up to a number, or is `NOT_OPEN`; see `place_of`."""
        self._places[worker] = place
        self._shown[worker] = commit

    def is_shown(self, commit: int, place: int) -> bool:
        """Whether all workers show a commit, or a later one, of the index at a place."""
        shown = zip(self._shown, self._places, strict=True)
        return all(own == NOT_OPEN or (own >= commit and at == place) for own, at in shown)

    def is_replaced(self, commit: int, place: int) -> bool:
        """Whether a worker has looked since a commit, and another index was in its place."""
        shown = zip(self._shown, self._places, strict=True)
        return any(commit <= own < NOT_OPEN and at != place for own, at in shown)


@dataclass(frozen=True)
class WriterAddress:
    """Where workers reach the writer, and what they share with it."""

    path: str  # of the socket, in a folder that only this user can enter
    board: Board  # of commits


class Forwarder:
    """Sends requests of a worker to the writer.

    Args:
        writer: where it is; None where nothing writes, as in a program of its own.
        worker: number of this worker.

    Attributes:
        board: shared with the writer, None without one.
        place: the board, and the number of this worker on it.
    """

    def __init__(self, writer: WriterAddress | None = None, worker: int = 0) -> None:
        self.board = writer.board if writer else None
        self.place = self.board, worker
        self._path = writer.path if writer else None
        self._client: httpx.AsyncClient | None = None
        self._encoding = 0

    @property
    def counts(self) -> WriterCounts | None:
        """What the writer has done, for the metrics of the first worker."""
        return None if self.board is None or self.place[1] else self.board.counts

    async def image(self, request: Request, image_id: str, refresh: Refresh) -> Response:
        """Pass a request about one image on."""
        path = quote(image_id, safe="").replace(".", "%2E")  # "." and ".." are no folders here
        return await self.send(request, path, refresh)

    async def encode(self, request: Request) -> Response:
        """The terms of the photo that a request sends, with their impacts.

        Raises:
            ProblemError: if too many are being encoded, there is no writer, or it ends.
        """
        if self._encoding == ENCODING:
            raise ProblemError("overloaded", "too many photos are being encoded; try again")
        self._encoding += 1
        try:
            return await self.send(request, "similar", "none")
        finally:
            self._encoding -= 1

    async def send(
        self, request: Request, path: str, refresh: Refresh, body: bytes | None = None
    ) -> Response:
        """Pass a request on, and answer when every worker shows the change it waits for.

        `path` is below /v1/images/; `body` takes the place of the request's; `refresh` is "wait"
        until the change can be found, or "none".

        Raises:
            ProblemError: if there is no writer, it ends, or a worker does not show the change.
        """
        if self._path is None:
            raise ProblemError("not-writable", "this program only searches: use sparta serve")
        import httpx  # which a server that only searches does not need

        self._client = self._client or _client(self._path)
        headers = {name: request.headers[name] for name in PASSED_ON if name in request.headers}
        if body is not None:
            headers = {"content-type": "application/json"}
        try:
            answer = await self._client.request(
                request.method,
                f"{HOST}/v1/images/{path}",
                params={"refresh": refresh},
                headers=headers,
                content=_body(request) if body is None else body,
            )
        except httpx.TransportError as error:
            detail = "the writer ended; whether the change is saved is unknown: send it again"
            raise ProblemError("writing-unsure", detail) from error
        if commit := answer.headers.get(COMMIT):
            await self._shown(int(commit), int(answer.headers[PLACE]))
        media_type = answer.headers.get("content-type")
        kept = {name: answer.headers[name] for name in ANSWERED if name in answer.headers}
        return Response(answer.content, answer.status_code, kept, media_type)

    async def _shown(self, commit: int, place: int) -> None:
        assert self.board is not None
        end = monotonic() + SHOWN_WITHIN
        while not self.board.is_shown(commit, place):
            if self.board.is_replaced(commit, place):
                raise ProblemError("writing-failed", REPLACED)
            if monotonic() > end:
                detail = "the change is saved, but not every worker shows it yet: see the log"
                raise ProblemError("writing-unsure", detail)
            await asyncio.sleep(LOOK)

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.aclose()


def _client(path: str) -> httpx.AsyncClient:
    import httpx

    # A writer that ends would close connections that wait for their next request. There is no
    # TLS, whose certificates would take longer to load than all else.
    limits = httpx.Limits(max_keepalive_connections=0)
    transport = httpx.AsyncHTTPTransport(verify=False, uds=path, limits=limits, trust_env=False)
    return httpx.AsyncClient(transport=transport, timeout=None, trust_env=False)


async def _body(request: Request) -> AsyncIterator[bytes]:
    async for part in request.stream():
        if part:
            yield part
