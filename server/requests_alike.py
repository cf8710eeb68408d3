"""Requests of a connection that differ in their query strings alone: all but the first, usually.

Their headers are the same to the byte, so that what was read of them once need not be again.
"""

from __future__ import annotations

import re
from typing import NamedTuple, Self

from starlette.types import Scope

SEEN = "visualsparta.quick"  # in the scope of a request that was tried in one pass
DECIDED = (SEEN, "caller")  # what a request that is tried keeps when the application answers it

# Characters of a query string that no parser of HTTP takes for anything else.
_line = re.compile(rb"GET /v1/search\?([\w.~%+&=*-]*) HTTP/1\.1\r\n").match


class Alike(NamedTuple):
    """Requests with the headers of one that was read by the parser.

    Attributes:
        rest: their bytes after the first line.
        scope: of ASGI, but for the query string.
    """

    rest: bytes
    scope: Scope

    @classmethod
    def to(cls, data: bytes, scope: Scope) -> Self | None:
        """Those like a request; None if its first line is an unusual one.

        Args:
            data: the whole request and nothing else.
            scope: of it.
        """
        line = _line(data)
        return None if line is None else cls(data[line.end() :], scope)

    def scope_of(self, data: bytes) -> Scope | None:
        """The scope of a request, None if it is not one of these and nothing else."""
        line = _line(data)
        if line is None or data[line.end() :] != self.rest:
            return None
        return {**self.scope, "query_string": line[1]}
