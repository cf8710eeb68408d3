"""An answer is defined once: REST, the clients, MCP and `--json` show the searcher's own fields."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
from pydantic import BaseModel

from indexer import answer
from indexer.answer import Bucket
from server import mcp as tools
from server import schemas
from tests.server.fake import FakeSearcher

REQUEST = {"query", "backend", "index_version"}


def names(shown: Any) -> set[str]:
    if issubclass(shown, BaseModel):
        return set(shown.model_fields)
    return {one.name for one in fields(shown)}


@pytest.mark.parametrize(
    ("own", "shown", "added"),
    [
        (answer.Hit, schemas.HitAnswer, {"url"}),
        (answer.TermExplanation, schemas.TermAnswer, set()),
        (answer.Explanation, schemas.ExplanationAnswer, {*REQUEST, "url"}),
        (answer.Timings, schemas.TimingsAnswer, set()),
        (answer.Substitution, schemas.SubstitutionAnswer, set()),
        (answer.Correction, schemas.CorrectionAnswer, set()),
        (answer.Condition, schemas.ConditionAnswer, set()),
        (answer.QueryTerm, schemas.QueryTerm, set()),
        (Bucket, schemas.BucketAnswer, set()),
        (answer.Answer, schemas.SearchAnswer, {*REQUEST, "cursor", "partial"}),
    ],
)
def test_rest_shows_every_field_by_its_name(own: type, shown: type, added: set[str]) -> None:
    hidden = set(answer.INTERNAL) if own is answer.Answer else set()
    assert names(own) - hidden | added == names(shown)


@pytest.mark.parametrize(
    ("selected", "whole"),
    [
        (tools.Hit, answer.Hit),
        (tools.PlacedTerm, answer.TermExplanation),
        (tools.Search, answer.Answer),
        (tools.Similar, answer.Answer),
        (tools.Explanation, answer.Explanation),
    ],
)
def test_tools_select_fields_by_their_names(selected: type, whole: type) -> None:
    assert names(selected) <= names(whole)


def test_json_of_commands_has_all_fields() -> None:
    found = FakeSearcher().search("red azure qwx", 2)
    shown: dict[str, Any] = found.as_json()
    assert set(shown) == names(answer.Answer) - set(answer.INTERNAL)
    assert set(shown["hits"][0]) == names(answer.Hit)
    assert set(shown["substitutions"][0]) == names(answer.Substitution)
