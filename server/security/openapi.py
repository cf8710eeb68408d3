"""What the OpenAPI document says about keys."""

from __future__ import annotations

from typing import Any

from server.problems import MEDIA_TYPE, PROBLEM, responses
from server.security.access import BEARER, HEALTH, PUBLIC
from server.security.callers import COOKIE

HEADER, BROWSER = "apiKey", "browser"  # names of schemes
SCHEMES = {
    BEARER: {"type": "http", "scheme": "bearer", "description": "An API key"},
    HEADER: {"type": "apiKey", "in": "header", "name": "x-api-key", "description": "An API key"},
    BROWSER: {
        "type": "apiKey",
        "in": "cookie",
        "name": COOKIE,
        "description": "An API key as POST /v1/sign-in stores it in a browser; for searching, "
        "and for writing from this server's page",
    },
}
# Searching: a server without keys answers its own machine, which `{}` stands for.
SEARCHING: list[dict[str, list[str]]] = [{}, {BEARER: []}, {HEADER: []}, {BROWSER: []}]
MORE: list[dict[str, list[str]]] = [{BEARER: []}, {HEADER: []}]


def describe(document: dict[str, Any]) -> None:
    """Add the security schemes, what each operation needs, and how it is refused."""
    document["components"]["securitySchemes"] = SCHEMES
    for path, operations in document["paths"].items():
        for operation in operations.values():
            _describe(path, operation)


def _describe(path: str, operation: dict[str, Any]) -> None:
    declared = operation.pop("security", [])
    needed = declared[0][BEARER][0] if declared else "search"
    if path in HEALTH:
        operation["security"] = []
        return
    kinds = ["too-many-requests"]
    if path in PUBLIC:
        operation["security"] = []
    else:
        operation["security"] = SEARCHING if needed == "search" else MORE
        kinds += ["key-needed", "scope-missing"]
    if needed != "search":
        operation["description"] += f"\n\nNeeds a key of scope {needed}."
    if "requestBody" in operation:
        kinds += ["body-too-large", "length-required"]
    _add_problems(operation["responses"], kinds)
    # Answered by the connection, before a route is known.
    large = {"description": "the address and the headers are too large", "content": PROBLEM}
    operation["responses"]["431"] = large


def _add_problems(documented: dict[str, Any], kinds: list[str]) -> None:
    for status, added in responses("wrong-host", *kinds).items():
        found = documented.setdefault(str(status), added)
        if found is not added:
            found["content"][MEDIA_TYPE]["examples"] |= added["content"][MEDIA_TYPE]["examples"]
            found["description"] += f", or {added['description']}"
