"""Hooks for schemathesis: lines of JSON, and which requests that fit may still be refused.

No schema can say how a filter is written, which fields an index has, that a search needs words or
one of these, or what a cursor is. So 422 is an answer to such requests; to any other that fits the
document it is not. And too large an address is refused with 431, too large a body with 413, which
schemathesis does not count as refusals of what does not fit.
"""

from __future__ import annotations

import json
from typing import Any

import schemathesis
from schemathesis import Case, HookContext, Response
from schemathesis.core.failures import Failure

UNDESCRIBED = ("filter", "facets", "sort", "cursor", "rerank", "queries")


@schemathesis.hook
def filter_failure(
    context: HookContext, failure: Failure, case: Case[Any], response: Response
) -> bool:
    """Whether schemathesis reports a failure."""
    if "negative_data_rejection" in failure.checks and response.status_code in (413, 431):
        return False
    refused = "positive_data_acceptance" in failure.checks and response.status_code == 422
    wordless = case.path.endswith("/v1/search") and not (
        has(case.query, "q") or has(case.body, "q")
    )
    described = not any(has(case.query, name) or has(case.body, name) for name in UNDESCRIBED)
    return not refused or (described and not wordless)


@schemathesis.serializer("application/x-ndjson")
def lines(context: Any, value: Any) -> bytes:
    """A body of one line."""
    return json.dumps(value).encode()


def has(values: Any, name: str) -> bool:
    """Whether a request's parameters or body have a value of this name."""
    return isinstance(values, dict) and name in values
