"""What is recorded of a request while it is answered."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, MutableMapping
from dataclasses import dataclass, field
from itertools import count
from time import perf_counter
from typing import Any

from indexer.search.answer import Timings

HEADER = b"x-request-id"
_KEY = "visualsparta.record"  # in the ASGI scope
# What others may choose: nothing that needs quoting in a log or a header.
_ID = re.compile(rb"[A-Za-z0-9._:+/=@-]{1,128}")
_process = os.urandom(8).hex()
_numbers = count(1)


@dataclass(slots=True)
class RequestRecord:
    """A request and its answer; stages are measured in milliseconds.

    Attributes:
        id: from X-Request-ID, or made here.
        start: of the request, by `perf_counter`.
        status: of the answer, 0 until it begins.
        bytes: of the answer's body so far.
        backend: that searched, "" if none did.
        engine: of that backend.
        index: version of the index that was searched.
        search_ms: of the whole search, without waiting and explanations.
        stages: stage → its time, in order: "queue", "tokenise", "encode", "search", "explain".
    """

    id: str
    start: float = field(default_factory=perf_counter)
    status: int = 0
    bytes: int = 0
    backend: str = ""
    engine: str = ""
    index: str = ""
    search_ms: float = 0.0
    stages: dict[str, float] = field(default_factory=dict)

    def searched(self, backend: str, engine: str, timings: Timings) -> None:
        """Record what searched, and its times."""
        self.backend, self.engine, self.search_ms = backend, engine, timings.total_ms
        self.stages["tokenise"] = timings.tokenise_ms
        if timings.encode_ms:
            self.stages["encode"] = timings.encode_ms
        self.stages["search"] = timings.search_ms
        if timings.explain_ms is not None:
            self.stages["explain"] = timings.explain_ms


def begin(scope: MutableMapping[str, Any]) -> RequestRecord:
    """The record of a request that has just arrived."""
    record = scope[_KEY] = RequestRecord(_request_id(scope["headers"]))
    return record


def record_of(scope: MutableMapping[str, Any]) -> RequestRecord:
    """The record of a request; one that nobody reads if the request did not come by HTTP."""
    found: RequestRecord | None = scope.get(_KEY)
    return found or RequestRecord("")


def _request_id(headers: Iterable[tuple[bytes, bytes]]) -> str:
    for name, value in headers:
        if name == HEADER and _ID.fullmatch(value):
            return value.decode("ascii")
    return f"{_process}-{next(_numbers):x}"
