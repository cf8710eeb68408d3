"""What a measurement writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from rich.table import Table

from eval.report import report


class Found:
    def record(self) -> dict[str, Any]:
        return {"figure": 1.5}

    def table(self) -> Table:
        return Table("figure", title="Found")


def test_a_file_has_arguments_without_folders(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.json"
    arguments = {"index": tmp_path / "index", "k": 10, "out": out, "kind": None}
    report(Found(), arguments, out, as_json=False)
    found = json.loads(out.read_text())
    assert found["arguments"] == {"index": "index", "k": 10, "out": "out.json", "kind": None}
    assert found["figure"] == 1.5 and {"package_version", "date", "processor"} <= found.keys()
    assert "Found" in capsys.readouterr().out


def test_json_is_printed_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    report(Found(), {}, None, as_json=True)
    assert json.loads(capsys.readouterr().out) == {"figure": 1.5}
