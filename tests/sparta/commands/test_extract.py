from pathlib import Path

import pytest
from PIL import Image
from typer import Typer
from typer.testing import CliRunner

from sparta.commands.extract import extract
from sparta.errors import InputError
from tests.sparta.features.readers.oscar_files import random_images, write_scene_graph


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
    other = CliRunner().invoke(app, [*asked, "--augmentation", "flip"])
    assert isinstance(other.exception, InputError)


def test_features_of_other_software_are_recognised(tmp_path: Path, app: Typer) -> None:
    folder = write_scene_graph(tmp_path / "in", random_images("abc"))
    without = CliRunner().invoke(app, [str(folder), "--out", str(tmp_path / "out")])
    assert "features of other software: sparta import scene-graph" in str(without.exception)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (["a"], "--backbone or --detector: name what turns the photos into features"),
        (["a", "--backbone", "pixels", "--regions", "50"], "--colours need --detector"),
        (["a", "--backbone", "pixels", "--colours"], "--colours need --detector"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    tmp_path: Path, app: Typer, asked: list[str], message: str
) -> None:
    result = CliRunner().invoke(app, [*asked, "--out", str(tmp_path / "out")])
    assert isinstance(result.exception, InputError)
    assert message in str(result.exception)
    assert not (tmp_path / "out").exists()
