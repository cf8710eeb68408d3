"""An answer is defined once: REST, the clients, MCP and `--json` show the searcher's own fields."""

from __future__ import annotations

import ast
import re
from dataclasses import fields
from pathlib import Path
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


def test_a_field_of_a_hit_is_carried_by_six_files() -> None:
    """From where it is defined and filled to REST, the clients, MCP, the page and a published site.

    `--json` takes all fields as they are; the terminal's table shows some.
    """
    root, carriers = Path(schemas.__file__).parent.parent, set()
    for path in [*root.glob("indexer/**/*.py"), *root.glob("server/**/*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and node.name in ("Hit", "HitAnswer"):
                named = [one.target for one in node.body if isinstance(one, ast.AnnAssign)]
                carries = "coverage" in map(ast.unparse, named)
            elif isinstance(node, ast.Attribute):
                carries = node.attr == "coverage" and isinstance(node.ctx, ast.Store)
            else:
                continue
            if carries:
                carriers.add(str(path.relative_to(root)))
    for path in root.glob("server/**/*.js"):
        if re.search(r"hit\.coverage|\bcoverage: (?!number)", path.read_text()):
            carriers.add(str(path.relative_to(root)))
    assert carriers == {
        "indexer/answer.py",
        "indexer/search/explanations.py",
        "server/schemas.py",
        "server/mcp.py",
        "server/page/grid.js",
        "server/publish/search/index.js",
    }
