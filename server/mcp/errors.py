"""Errors of the server as an agent reads them: what is wrong, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mcp.server.mcpserver.exceptions import ToolError

from server.client.transport import ClientError, NotSentError

# By the last part of a problem's type, or by the status of errors that have none.
ADVICE = {
    "unknown-image": "Take image_id from the hits of search or similar, exactly as it is there.",
    "unknown-backend": "Leave out backend to search the inverted index.",
    "photo-unreadable": "The photo cannot be shown; search, similar and explain work without it.",
    "photo-missing": "The photo cannot be shown; search, similar and explain work without it.",
    "401": "Ask the operator to set SPARTA_API_KEY to a key of this server.",
    "403": "Ask the operator for a key that allows this.",
    "429": "Wait, then try again with fewer calls.",
    "503": "Wait a few seconds, then try again.",
    "unreachable": "Ask the operator to start the server, or to correct its address.",
}


@contextmanager
def actionable() -> Iterator[None]:
    """Turn a failed request into the error of a tool, with what an agent can do about it.

    Raises:
        ToolError: if the request fails.
    """
    try:
        yield
    except ClientError as error:
        raise ToolError(f"{_reason(error)} {_advice(error)}".strip()) from error


def _reason(error: ClientError) -> str:
    text = (str(error) if error.problem is None else error.problem.detail).rstrip(".")
    return f"{text}."


def _advice(error: ClientError) -> str:
    if isinstance(error, NotSentError):
        return ""  # the reason says what to do
    if error.problem is None:
        return ADVICE["unreachable"]
    kind = error.problem.type.rpartition(":")[2]
    return ADVICE.get(kind) or ADVICE.get(str(error.status), "")
