"""Hooks for schemathesis: lines of JSON, and which requests that fit may still be refused.

No schema can say how a filter is written or which fields an index has, so 422 is an answer to
requests with a filter, facets or an order; to any other that fits the document it is not.
"""

from __future__ import annotations

import json
from typing import Any

import schemathesis
from schemathesis import Case, HookContext, Response
from schemathesis.core.failures import Failure

UNDESCRIBED = ("filter", "facets", "sort")


@schemathesis.hook
def filter_failure(
    context: HookContext, failure: Failure, case: Case[Any], response: Response
) -> bool:
    """Whether schemathesis reports a failure."""
    refused = "positive_data_acceptance" in failure.checks and response.status_code == 422
    return not (refused and (undescribed(case.query) or undescribed(case.body)))


@schemathesis.serializer("application/x-ndjson")
def lines(context: Any, value: Any) -> bytes:
    """A body of one line."""
    return json.dumps(value).encode()


def undescribed(values: Any) -> bool:
    """Whether a request's parameters or body have something that no schema can describe."""
    return isinstance(values, dict) and any(name in values for name in UNDESCRIBED)
