"""Addresses of servers that a user gives."""

from __future__ import annotations

from urllib.parse import urlsplit

from sparta.errors import InputError


def server_address(text: str, example: str) -> str:
    """The address of a server without a slash at the end.

    Args:
        text: as the user gives it.
        example: for the message.

    Raises:
        InputError: if it is not an address of HTTP, or has a query.
    """
    try:
        parts = urlsplit(text)
        right = parts.scheme in ("http", "https") and parts.hostname and not parts.query
    except ValueError:  # half an IPv6 address
        right = False
    if not right:
        raise InputError(f"{text!r} is not the address of a server; give one like {example}")
    return text.rstrip("/")
