from pathlib import Path

import pytest
from PIL import Image
from typer import Typer
from typer.testing import CliRunner

from sparta.errors import InputError
from sparta.features.cli import extract


@pytest.fixture
def app() -> Typer:
    command = Typer()
    command.command()(extract)
    return command


def test_says_what_it_did(tmp_path: Path, app: Typer) -> None:
    (tmp_path / "photos").mkdir()
    Image.new("RGB", (20, 20)).save(tmp_path / "photos" / "a.png")
    (tmp_path / "photos" / "b.png").touch()
    out = tmp_path / "out"
    asked = [str(tmp_path / "photos"), "--backbone", "pixels", "--out", str(out), "--workers", "0"]
    first = CliRunner().invoke(app, asked, env={"COLUMNS": "300"})
    assert first.exit_code == 0, first.output
    assert "1 images, 2 photos in" in first.output
    assert f"1 photos could not be used: see {out / 'skipped.jsonl'}" in first.output
    again = CliRunner().invoke(app, asked, env={"COLUMNS": "300"})
    assert "is already complete: 1 images" in again.output
    other = CliRunner().invoke(app, [*asked, "--view", "flip"])
    assert isinstance(other.exception, InputError)
