"""How a client connects: timeouts, retries and the API key."""

from __future__ import annotations

from typing import Any

import httpx

from sparta.errors import InputError

TIMEOUT = 30.0  # seconds; a dense model takes several to load at its first query
CONNECT_TIMEOUT = 5.0
RETRIES = 5  # seven seconds of pauses at most: a server restarts in less


def options(api_key: str | None, timeout: float) -> dict[str, Any]:
    """The options of httpx's clients.

    Raises:
        InputError: if the key cannot be sent in a header; the text does not contain it.
    """
    headers = {"User-Agent": "visualsparta-client", "Accept": "application/json, image/*"}
    if api_key is not None:
        if not (api_key.isascii() and api_key.isprintable() and api_key.split() == [api_key]):
            raise InputError("the API key has spaces or characters that keys never have")
        headers["Authorization"] = f"Bearer {api_key}"
    limit = httpx.Timeout(timeout, connect=min(timeout, CONNECT_TIMEOUT))
    return {"headers": headers, "timeout": limit}
