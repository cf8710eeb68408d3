from pathlib import Path

import pytest
from typer.testing import CliRunner

from sparta.command_line import cli
from sparta.errors import InputError


def test_it_writes_and_reuses(tmp_path: Path) -> None:
    arguments = ["scenes", "--out", str(tmp_path / "out"), "--count", "3", "--workers", "1"]
    assert "wrote 3 scenes" in CliRunner().invoke(cli, arguments).output
    assert "reused 3 scenes" in CliRunner().invoke(cli, arguments).output


def test_it_writes_queries_for_new_and_finished_scenes(tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = ["scenes", "--out", str(out), "--count", "3", "--workers", "1"]
    CliRunner().invoke(cli, arguments)
    assert not (out / "queries.jsonl").exists()
    run = CliRunner().invoke(cli, [*arguments, "--queries", "2"])
    assert "wrote 2 queries" in run.output, run.output
    assert len((out / "queries.jsonl").read_text("utf-8").splitlines()) == 2


def test_workers_must_be_a_number(tmp_path: Path) -> None:
    arguments = ["scenes", "--out", str(tmp_path / "out"), "--workers", "many"]
    with pytest.raises(InputError, match="--workers 'many'"):
        CliRunner().invoke(cli, arguments, catch_exceptions=False)
