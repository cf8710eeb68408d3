"""Serving below a path of another site: `--root-path`."""

from __future__ import annotations

# Private, but the very function that finds the route: two that differ could let a request pass as
# another.
from starlette._utils import get_route_path
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Receive, Scope, Send


def route_path(scope: Scope) -> str:
    """The path of a request below the root path, as routes are declared."""
    return get_route_path(scope)


class RootPath:
    """Middleware that serves an application below a path, whether or not a proxy removes it.

    Args:
        app: the application.
        root_path: begins with a slash and does not end with one.
    """

    def __init__(self, app: ASGIApp, root_path: str) -> None:
        self.app, self._root = app, root_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "http":
            path = scope["path"]
            if path == self._root:  # where the page's own links would lead out of it
                return await RedirectResponse(f"{path}/")(scope, receive, send)
            if not path.startswith(f"{self._root}/"):
                path = self._root + path
            # In place, for the middleware outside that logs what became of the request.
            scope["root_path"], scope["path"] = self._root, path
        await self.app(scope, receive, send)
