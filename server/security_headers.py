"""Security headers of all responses, and the middleware that adds them."""

from __future__ import annotations

from typing import TypeAlias

from starlette.types import ASGIApp, Message, Receive, Scope, Send

SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
}

# FastAPI's Swagger page has an inline script and loads its library from this one host.
DOCS_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' https://cdn.jsdelivr.net; "
    "style-src 'unsafe-inline' https://cdn.jsdelivr.net; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; frame-ancestors 'none'"
)


Headers: TypeAlias = list[tuple[bytes, bytes]]

_RAW = [(name.lower().encode(), value.encode()) for name, value in SECURITY_HEADERS.items()]
_POLICY = _RAW[0][0]
_DOCS = [(name, DOCS_POLICY.encode() if name == _POLICY else value) for name, value in _RAW]


class SecurityHeaders:
    """Middleware that adds `SECURITY_HEADERS` where a response does not set its own."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request and add the headers to its response."""

        async def send_completed(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = completed(scope, message["headers"])
            await send(message)

        await self.app(scope, receive, send_completed)


def completed(scope: Scope, headers: Headers) -> Headers:
    """The headers of a response, and those of `SECURITY_HEADERS` that it does not set itself."""
    present = {name for name, _ in headers}
    docs = scope["path"].removeprefix(scope.get("root_path", "")) == "/docs"
    return [*headers, *[one for one in (_DOCS if docs else _RAW) if one[0] not in present]]
