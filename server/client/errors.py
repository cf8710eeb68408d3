"""What a client raises, and the errors of servers as it reads them."""

from __future__ import annotations

import httpx
from pydantic import ValidationError

from server.schemas import Problem

PROBLEM = "application/problem+json"


class ClientError(Exception):
    """A request failed, after all attempts; the text is one line for people.

    Attributes:
        problem: the server's answer as RFC 9457 defines it; None if no server answered.
        status: its HTTP status; None if no server answered.
    """

    def __init__(self, text: str, problem: Problem | None = None) -> None:
        super().__init__(text)
        self.problem = problem
        self.status = None if problem is None else problem.status


class NotSentError(ClientError):
    """The client sent nothing, since no image can have the id that was given."""


def answered(response: httpx.Response) -> ClientError:
    """The error of a server's answer."""
    problem = _problem(response)
    text = f"{response.url.host} answered {problem.status}, {problem.title}: {problem.detail}"
    if later := response.headers.get("retry-after"):
        text += f" (Retry-After: {later})"
    return ClientError(text, problem)


def unreachable(error: httpx.TransportError, server: str) -> ClientError:
    """The error of a request that no server answered."""
    reason = str(error) or type(error).__name__
    return ClientError(f"{server} does not answer: {reason}")


def not_understood(response: httpx.Response) -> ClientError:
    """The error of an answer that is not the one of a VisualSparta server."""
    return ClientError(
        f"{response.url.copy_with(query=None)} does not answer as a VisualSparta server: check the "
        "address, and that client and server have the same version"
    )


def _problem(response: httpx.Response) -> Problem:
    if response.headers.get("content-type", "").startswith(PROBLEM):
        try:
            return Problem.model_validate_json(response.content)
        except ValidationError:
            pass
    # A proxy answered, or another server.
    title = response.reason_phrase or "unknown status"
    detail = "the answer has no description"
    return Problem(type="about:blank", title=title, status=response.status_code, detail=detail)
