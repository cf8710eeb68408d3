"""Conditional requests: whether a client already has the file as it is (RFC 9110, section 13)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from email.utils import parsedate_to_datetime


def entity_tag(stat: os.stat_result) -> str:
    """A tag that changes whenever a file does: its change time cannot be set back."""
    return f'"{stat.st_mtime_ns:x}-{stat.st_ctime_ns:x}-{stat.st_size:x}"'


def not_modified(headers: Mapping[str, str], tag: str, modified: float) -> bool:
    """Whether a client has a file already, so that its answer is 304.

    Args:
        headers: of the request.
        tag: the file's entity tag.
        modified: when it was last modified, in seconds since 1970.
    """
    if (tags := headers.get("if-none-match")) is not None:
        listed = [one.strip().removeprefix("W/") for one in tags.split(",")]
        return listed == ["*"] or tag in listed
    try:
        since = parsedate_to_datetime(headers["if-modified-since"]).timestamp()
    except (KeyError, ValueError, OverflowError):
        return False
    return int(modified) <= since
