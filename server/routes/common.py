"""What routes share: parameters, work in threads, and answers as JSON."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event
from time import perf_counter
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import Depends, Query, Request, Response
from pydantic import AfterValidator, BaseModel, FailFast
from pydantic_core import PydanticCustomError, to_json

from indexer.answer import INTERNAL, Answer
from indexer.filters.expression import Filter
from indexer.filters.syntax import parse_filter, read_filter
from indexer.search.explanations import Explain
from server.backends import Backend, Lease, backends_of, lease_of
from server.monitoring.metrics import MS, Metrics
from server.monitoring.monitor import record_of
from server.problems import CLIENT_GONE, ProblemError
from sparta.json_values import Json

MAX_K = 1000
MAX_QUERY_LENGTH = 1000
MAX_IMAGES = 20  # of a search by images
MAX_EXPLAINED = 100_000  # terms of all hits; 0.1 s
THREADS = 8
WAITING = 56  # searches that may wait for a thread; more are refused at once
# A character that is no white space to Python; the escapes alone are none to JSON Schema.
NOT_BLANK = r"[^\s\x1c-\x1f\x85]"
FILTER = "Photos that may be found: conditions on fields of their metadata; docs/queries.md"

_plain = re.compile(r"[A-Za-z0-9_.~/-]*").fullmatch


BackendName = Annotated[
    str | None,
    Query(description="Name of a backend, with + written as %2B; by default the first one"),
]


async def _backend(request: Request, backend: BackendName = None) -> Backend:
    return backends_of(request).get(backend)


def _not_blank(text: str) -> str:
    if not text.strip():
        raise PydanticCustomError("blank", "the query is empty; give at least one word")
    return text


BackendParameter = Annotated[Backend, Depends(_backend)]
QUERY = (
    "What to search for, in plain words; a word given twice counts twice. +beach: photos must have "
    'the word; -dog: must not; beach^3: counts three times; +"fire truck": one word of all its '
    "pieces; a backslash makes an operator plain."
)
QueryParameter = Annotated[
    str,
    Query(
        max_length=MAX_QUERY_LENGTH,
        description=QUERY,
        examples=["two dogs on a beach"],
        json_schema_extra={"minLength": 1, "pattern": NOT_BLANK},
    ),
    AfterValidator(_not_blank),
]
AlsoParameter = Annotated[
    list[str],
    FailFast(),
    Query(max_length=MAX_IMAGES - 1, description="Ids of further images to be similar to"),
]
WordsParameter = Annotated[
    str,
    Query(
        max_length=MAX_QUERY_LENGTH,
        description="A query that the photos should fit as well, which has half of the weight; it "
        "may only exclude",
        examples=["at night"],
    ),
]
CountParameter = Annotated[int, Query(ge=1, le=MAX_K, description="Largest number of hits")]
SubstituteParameter = Annotated[
    bool,
    Query(
        description="Correct misspelt words, and replace words that the index lacks by the nearest "
        "trained terms, if the index has the tables; dense models have none"
    ),
]
ExplainParameter = Annotated[
    bool, Query(description="Explain each hit: the score of every term, and the region that won it")
]
FilterParameter = Annotated[
    str | None,
    Query(description=FILTER, examples=["taken:2024-06..2024-08 camera:canon -folder:raw"]),
]


class ClientGoneError(Exception):
    """Raised by work whose client has hung up."""


class Wanted:
    """Tells work whether its client still waits for it."""

    def __init__(self) -> None:
        self._gone = Event()

    def withdraw(self) -> None:
        """The client has gone."""
        self._gone.set()

    def check(self) -> None:
        """Do nothing while the client waits.

        Raises:
            ClientGoneError: if it has gone.
        """
        if self._gone.is_set():
            raise ClientGoneError


class Work:
    """Runs searches in threads that nothing else uses, so that photos never wait for them."""

    def __init__(self, metrics: Metrics, threads: int = THREADS, waiting: int = WAITING) -> None:
        self._metrics = metrics
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads, "search")
        self._places = threads + waiting
        self._taken = 0

    async def run(self, request: Request, task: Callable[[Wanted], Response]) -> Response:
        """Run a task in a thread, as long as the client waits for it.

        Raises:
            ProblemError: if too many tasks are running and waiting already.
        """
        if self._taken >= self._places:
            self._metrics.refused.inc()
            detail = "too many searches are running; try again in a second"
            raise ProblemError("overloaded", detail)
        wanted = Wanted()
        record = record_of(request.scope)
        start = perf_counter()

        def timed() -> Response:
            record.stages["queue"] = (perf_counter() - start) * MS
            return task(wanted)

        future = self._start(timed, lease_of(request.scope))
        answer = asyncio.wrap_future(future)
        hung_up = asyncio.ensure_future(_hung_up(request))
        try:
            first = asyncio.FIRST_COMPLETED
            await asyncio.wait(list[asyncio.Future[Any]]([answer, hung_up]), return_when=first)
            return answer.result() if answer.done() else Response(status_code=CLIENT_GONE)
        finally:
            hung_up.cancel()
            if not answer.done():
                wanted.withdraw()
                answer.cancel()  # and with it a task that has not begun

    def _start(self, task: Callable[[], Response], lease: Lease | None) -> Future[Response]:
        loop = asyncio.get_running_loop()
        self._count(1)
        if lease is not None:
            lease.take()
        future = self._pool.submit(task)
        # A task that runs keeps its place and its index until its thread is free, even if its
        # client has gone.
        future.add_done_callback(lambda _: loop.call_soon_threadsafe(self._free, lease))
        return future

    def _free(self, lease: Lease | None) -> None:
        self._count(-1)
        if lease is not None:
            lease.give_back()

    def _count(self, change: int) -> None:
        self._taken += change
        running = min(self._taken, self._threads)
        self._metrics.work(running, self._taken - running)

    def close(self) -> None:
        """Wait for the tasks that run; those that wait are dropped."""
        self._pool.shutdown(cancel_futures=True)


async def _hung_up(request: Request) -> None:
    """Return when the client has closed the connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def in_thread(request: Request, task: Callable[[Wanted], Response]) -> Response:
    """As `Work.run`, by the application's."""
    work: Work = request.app.state.work
    return await work.run(request, task)


def answer_json(request: Request, backend: Backend, answer: Answer, **about: Any) -> Json:
    """An answer as a `SearchAnswer`.

    It is made of JSON objects, not models: making and checking models would take longer than a
    search.
    """
    record_of(request.scope).searched(backend.name, backend.searcher.engine.name, answer.timings)
    url = photo_urls(request, backend)
    hits = [{**vars(hit), "url": url(hit.image_id)} for hit in answer.hits]
    made = {"backend": backend.name, **about, **vars(answer), "hits": hits}
    for name in INTERNAL:
        del made[name]
    return made


def read(given: str | Json | None) -> Filter | None:
    """The filter of a request, as text or as JSON.

    Raises:
        FilterError: if it cannot be read.
    """
    if given is None:
        return None
    return parse_filter(given) if isinstance(given, str) else read_filter(given)


def explained(wanted: Wanted | None) -> Explain:
    """How hits are explained, as long as the client waits."""
    return Explain(most=MAX_EXPLAINED, check=(wanted or Wanted()).check)


def json_response(answer: BaseModel | Json) -> Response:
    """An answer as JSON, made here and not in the event loop, which it would block."""
    return Response(json_text(answer), media_type="application/json")


def json_text(answer: BaseModel | Json) -> bytes:
    """As `json_response`, the body alone."""
    return to_json(answer, inf_nan_mode="null")


def photo_urls(request: Request, backend: Backend) -> Callable[[str], str | None]:
    """Gives paths of photos on this server; None of a backend without a photos folder."""
    if not backend.has_photos:
        return lambda _: None
    start = f"{request.scope.get('root_path', '')}/v1/images/"
    default = backend is backends_of(request).default
    end = "/file" if default else f"/file?backend={quote(backend.name, safe='')}"
    # Most ids need no quoting, which takes longer than to look whether one does.
    return lambda image_id: f"{start}{image_id if _plain(image_id) else quote(image_id)}{end}"
