from pathlib import Path

import pytest
from typer.testing import CliRunner

from sparta.__main__ import cli
from sparta.errors import InputError


def test_it_writes_and_reuses(tmp_path: Path) -> None:
    arguments = ["scenes", "--out", str(tmp_path / "out"), "--count", "3", "--workers", "1"]
    assert "wrote 3 scenes" in CliRunner().invoke(cli, arguments).output
    assert "reused 3 scenes" in CliRunner().invoke(cli, arguments).output


def test_workers_must_be_a_number(tmp_path: Path) -> None:
    arguments = ["scenes", "--out", str(tmp_path / "out"), "--workers", "many"]
    with pytest.raises(InputError, match="--workers 'many'"):
        CliRunner().invoke(cli, arguments, catch_exceptions=False)
