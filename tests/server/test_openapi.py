"""Random requests by the OpenAPI document: every answer is as the document says."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from schemathesis.core import NOT_SET

from server.backends import Backend
from tests.server.apps import app_of
from tests.server.fake import FakeDense, FakeSearcher
from tests.server.live import serving
from tests.server.refusals import filter_failure

HOOKS = Path(__file__).with_name("refusals.py")
EXAMPLES = 15  # of each operation, besides those that cover the document

# Random ids are never there; this one is.
THERE = """
[parameters]
image_id = "garden/one.png"
[generation]
mode = "positive"
"""


@pytest.fixture(scope="module")
def address(photos: Path) -> Iterator[str]:
    sparta = Backend("sparta", FakeSearcher(quick=True), photos)
    with serving(sparta, Backend("vse++", FakeDense(), photos)) as address:
        yield address


@pytest.mark.parametrize("configuration", ["", THERE], ids=["anything", "there"])
def test_answers_are_as_documented(address: str, tmp_path: Path, configuration: str) -> None:
    file = tmp_path / "schemathesis.toml"
    file.write_text(f'hooks = "{HOOKS}"\n{configuration}')
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(file), "run"]
    command += [f"{address}/openapi.json", "--checks", "all", "--continue-on-failure"]
    command += ["--generation-deterministic", "--max-examples", str(EXAMPLES), "--no-color"]
    run = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert run.returncode == 0, run.stdout + run.stderr
    assert re.search(r"Tested: 23\b", run.stdout)


def test_a_blank_query_does_not_fit_the_document() -> None:
    app = app_of(Backend("sparta", FakeSearcher()))
    parameters = app.openapi()["paths"]["/v1/search"]["get"]["parameters"]
    [q] = [one["schema"] for one in parameters if one["name"] == "q"]
    assert (q["minLength"], q["maxLength"]) == (1, 1000)
    blanks = [chr(code) for code in range(0x110000) if not chr(code).strip()]
    assert len(blanks) > 20
    pattern = re.compile(q["pattern"])
    assert not any(map(pattern.search, blanks))
    assert all(map(pattern.search, ["a", " é ", "\0", "\u200b", "犬"]))


def test_operations_have_names() -> None:
    app = app_of(Backend("sparta", FakeSearcher()))
    paths = app.openapi()["paths"].values()
    names = [operation["operationId"] for path in paths for operation in path.values()]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch("[a-z]+(_[a-z]+)*", name) for name in names)


@pytest.mark.parametrize(
    ("query", "body", "status", "reported"),
    [
        ({"q": "dogs"}, NOT_SET, 422, True),
        ({"q": "dogs", "filter": "taken:2024"}, NOT_SET, 422, False),
        ({"q": "dogs", "filter": "taken:2024"}, NOT_SET, 404, True),
        (None, {"q": "dogs", "sort": "taken"}, 422, False),
        (None, {"q": "dogs"}, 422, True),
        (None, {"k": 3}, 422, False),
        ({"k": 3}, NOT_SET, 422, False),
    ],
)
def test_only_requests_that_no_schema_describes_may_be_refused(
    query: dict[str, str] | None, body: object, status: int, reported: bool
) -> None:
    case: Any = SimpleNamespace(query=query, body=body, path="/v1/search")
    response: Any = SimpleNamespace(status_code=status)
    failure: Any = SimpleNamespace(checks=("positive_data_acceptance",))
    assert filter_failure(Mock(), failure, case, response) == reported
