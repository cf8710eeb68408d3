"""Routes whose endpoints read the request by themselves."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, cast

from fastapi import Request, Response
from fastapi.routing import APIRoute

_Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class DirectRoute(APIRoute):
    """A route whose endpoint takes the request alone and returns the response.

    FastAPI resolves parameters and dependencies before it calls an endpoint, even where there are
    none: 0.04 ms, a tenth of a request's processor time. The route must have none.
    """

    def get_route_handler(self) -> _Handler:
        """The endpoint itself."""
        return cast(_Handler, self.endpoint)
