"""`GET /v1/search` in one pass: what the middleware and the route do, and nothing else.

A quick search takes less time than what is around it. Here the same functions are called one after
the other, without a task, a coroutine for each layer, and headers that are put together again and
again. Whatever is unusual, refused or wrong is left to the application: it decides again.
"""

from __future__ import annotations

from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from server.backends import Backend, Backends
from server.changeover.leases import Current
from server.monitoring.monitor import Monitor
from server.monitoring.record import begin
from server.quick_answer import quick_answer, read_quick
from server.quick_reply import Reply, reply_of
from server.requests_alike import SEEN
from server.routes.hit_texts import HitTexts
from server.routes.hits import paths_of_photos
from server.security.access import is_admitted
from server.security.install import Guards

# Headers of requests with a body, and of other protocols.
UNUSUAL = frozenset({b"content-length", b"transfer-encoding", b"expect", b"upgrade"})


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

    def answer(self, scope: Scope, alike: bool = False) -> Reply | None:
        """The answer to a request, None if the application should answer it.

        Args:
            scope: of ASGI; what is None once stays so.
            alike: whether a request was answered here that differs in its query string alone.
        """
        if not alike and not self._is_usual(scope):
            return None
        scope[SEEN] = True
        lease = self._current.take()
        try:
            return self._answer(scope, lease.resource)
        except Exception:  # the application meets it as well, and reports it
            return None
        finally:
            lease.give_back()

    def _is_usual(self, scope: Scope) -> bool:
        """Whether nothing but the query string may be a reason to leave it to the application."""
        return (
            scope["path"] == self._path
            and scope["method"] == "GET"
            and SEEN not in scope
            and not scope.get("root_path")
            and not any(name in UNUSUAL for name, _ in scope["headers"])
            and self._guards.hosts.are_asked(scope)
        )

    def _answer(self, scope: Scope, backends: Backends) -> Reply | None:
        asked = read_quick(scope["query_string"])
        if asked is None:
            return None
        backend = backends.get(asked.backend)
        searcher = backend.numbering
        if searcher is None:
            return None
        record = begin(scope)
        if not is_admitted(scope):
            scope["caller"] = self._guards.admission.admit(scope, self._path)
        scope["route"], record.index = self._route, backends.version
        texts = self._texts_of(backend, backend is backends.default)
        body = quick_answer(backend, searcher, asked, texts, record)
        reply = reply_of(body, scope, record)
        record.status, record.bytes = 200, len(reply.body)
        self._monitor.finished(scope, record)
        return reply

    def _texts_of(self, backend: Backend, default: bool) -> HitTexts:
        kind = backend.name, backend.has_photos, default
        if kind not in self._texts:
            self._texts[kind] = HitTexts(paths_of_photos(backend, default))
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
