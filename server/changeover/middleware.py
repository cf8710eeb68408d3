"""The innermost middleware: one index for the whole of a request."""

from __future__ import annotations

from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from server.changeover.leases import Current, keep_lease
from server.monitoring.record import record_of


class OneIndex:
    """Middleware that lets a request use the index that was current when it arrived."""

    def __init__(self, app: ASGIApp, current: Current[Any]) -> None:
        self.app, self.current = app, current

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        lease = self.current.take()
        keep_lease(scope, lease)
        record_of(scope).index = lease.resource.version
        try:
            await self.app(scope, receive, send)
        finally:
            lease.give_back()
