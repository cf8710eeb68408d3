"""The outermost middleware: gives every request an id, and records its answer."""

from __future__ import annotations

from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.monitoring.monitor import Monitor
from server.monitoring.record import HEADER, RequestRecord, begin

INDEX_VERSION = "X-Index-Version"
INDEX_HEADER = INDEX_VERSION.lower().encode()


class Monitoring:
    """Middleware that records every request; the answer names its id and the index it is of."""

    def __init__(self, app: ASGIApp, monitor: Monitor) -> None:
        self.app, self.monitor = app, monitor

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request and record it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        record = begin(scope)

        async def send_recorded(message: Message) -> None:
            if message["type"] == "http.response.start":
                record.status = message["status"]
                message["headers"] = [*message["headers"], *headers_of(record)]
            else:
                record.bytes += len(message.get("body", b""))
            await send(message)

        try:
            await self.app(scope, receive, send_recorded)
        finally:
            # Without an answer it is an unexpected error, which is answered outside of this.
            record.status = record.status or 500
            self.monitor.finished(scope, record)


def headers_of(record: RequestRecord) -> list[tuple[bytes, bytes]]:
    """The headers that name a request and the index that answered it."""
    headers = [(HEADER, record.id.encode())]
    # Without an index the request was refused before it reached one.
    return [*headers, (INDEX_HEADER, record.index.encode())] if record.index else headers


def describe(document: dict[str, Any]) -> None:
    """Add the version of the index to every answer of the routes in an OpenAPI document."""
    header = {
        "description": "Version of the index that gave the answer: answers of two may differ",
        "schema": {"type": "string", "examples": ["0f3a52b1c9de"]},
    }
    for operations in document["paths"].values():
        for operation in operations.values():
            for response in operation["responses"].values():
                response.setdefault("headers", {})[INDEX_VERSION] = header
