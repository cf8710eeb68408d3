"""Serving the shards of an index on a Ray cluster.

Ray Serve places, restarts and replicates; nothing here does. `deploy` is all that starts anything.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

LOST = "the process that was to answer has ended; a change may have been made: send it again"


class Root:
    """Stands for the application of an index, whose deployments it is bound to.

    It is here since its process loads the module of its class and needs nothing else. `parts` are
    handles of the deployments.
    """

    def __init__(self, *parts: Any) -> None: ...


def middlewares() -> list[Any]:
    """What Ray's proxies run around every request; they find it by `deploy.ENVIRONMENT`."""
    from starlette.middleware import Middleware

    return [Middleware(AskAgain)]


class AskAgain:
    """Answers with 503 in place of a replica that has ended; Ray's proxy would answer with 500."""

    def __init__(self, app: Callable[..., Awaitable[None]]) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass a request on."""
        started = scope["type"] != "http"

        async def sent(message: Any) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._app(scope, receive, sent)
        except Exception as error:
            if started:
                raise
            logging.getLogger(__name__).warning("a replica ended: %s", error)
        if not started:
            from http import HTTPStatus

            from server.problems import MEDIA_TYPE, RETRY_AFTER, plain_problem

            body, status = plain_problem(HTTPStatus.SERVICE_UNAVAILABLE, LOST), 503
            headers = {"content-type": MEDIA_TYPE, "content-length": str(len(body))}
            headers["retry-after"] = RETRY_AFTER
            pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
            await send({"type": "http.response.start", "status": status, "headers": pairs})
            await send({"type": "http.response.body", "body": body})
