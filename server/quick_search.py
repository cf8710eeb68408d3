"""`GET /v1/search` in one pass: what the middleware and the route do, and nothing else.

A quick search takes less time than what is around it. Here the same functions are called one after
the other, without a task, a coroutine for each layer, and headers that are put together again and
again. Whatever is unusual, refused or wrong is left to the application: it decides again.
"""

from __future__ import annotations

from typing import Any

from fastapi import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from server.backends import Backend, Backends
from server.changeover.leases import Current, keep_lease
from server.monitoring.monitor import Monitor
from server.monitoring.record import begin
from server.quick_reply import Reply, reply_of
from server.routes.hit_texts import HitTexts
from server.routes.hits import photo_urls
from server.routes.parameters import read_search
from server.routes.search import is_quick, quick_answer
from server.security.access import is_admitted
from server.security.install import Guards

# Headers of requests with a body, and of other protocols.
UNUSUAL = frozenset({b"content-length", b"transfer-encoding", b"expect", b"upgrade"})
_SEEN = "visualsparta.quick"  # in the ASGI scope


class QuickSearch:
    """Answers what is asked most.

    Attributes:
        PATH: of the requests that it answers, as it is sent.

    Args:
        current: the backends.
        guards: decide who may search.
        monitor: records what was answered.
        route: of the search.
    """

    PATH = b"/v1/search"

    def __init__(
        self, current: Current[Backends], guards: Guards, monitor: Monitor, route: Any
    ) -> None:
        self._current, self._guards = current, guards
        self._monitor, self._route, self._path = monitor, route, self.PATH.decode()
        self._texts: dict[tuple[str, bool, bool], HitTexts] = {}

    def answer(self, scope: Scope) -> Reply | None:
        """The answer to a request, None if the application should answer it.

        Args:
            scope: of ASGI; what is None once stays so.
        """
        if scope["path"] != self._path or scope["method"] != "GET" or _SEEN in scope:
            return None
        scope[_SEEN] = True
        if scope.get("root_path") or any(name in UNUSUAL for name, _ in scope["headers"]):
            return None
        lease = self._current.take()
        try:
            keep_lease(scope, lease)
            return self._answer(scope, lease.resource)
        except Exception:  # the application meets it as well, and reports it
            return None
        finally:
            lease.give_back()

    def _answer(self, scope: Scope, backends: Backends) -> Reply | None:
        asked = read_search(scope["query_string"])
        backend = backends.get(asked.backend)
        # Other machines would be asked a second time by the application if something went wrong.
        if backend.divided or not (backend.quick and is_quick(asked)):
            return None
        if not self._guards.hosts.are_asked(scope):
            return None
        record = begin(scope)
        if not is_admitted(scope):
            scope["caller"] = self._guards.admission.admit(scope, self._path)
        scope["route"], record.index = self._route, backends.version
        request = Request(scope)
        body = quick_answer(request, backend, asked, self._texts_of(request, backends, backend))
        reply = reply_of(body, scope, record)
        record.status, record.bytes = 200, len(reply.body)
        self._monitor.finished(scope, record)
        return reply

    def _texts_of(self, request: Request, backends: Backends, backend: Backend) -> HitTexts:
        kind = backend.name, backend.has_photos, backend is backends.default
        if kind not in self._texts:
            self._texts[kind] = HitTexts(photo_urls(request, backend))
        return self._texts[kind]


class Quick:
    """Middleware that answers what `QuickSearch` can, for servers that do not ask it themselves."""

    def __init__(self, app: ASGIApp, search: QuickSearch) -> None:
        self.app, self._search = app, search

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        reply = self._search.answer(scope) if scope["type"] == "http" else None
        if reply is None:
            await self.app(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 200, "headers": reply.headers})
        await send({"type": "http.response.body", "body": reply.body})
