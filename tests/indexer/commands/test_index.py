"""`sparta index`, from photos to an index."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from indexer.manifest import Manifest
from sparta.__main__ import cli
from sparta.errors import InputError


def test_the_command_goes_from_photos_to_an_index(
    model_dir: Path, tmp_path: Path, photos: Path
) -> None:
    out = tmp_path / "index"
    arguments = ["index", str(photos), "--model", str(model_dir), "--out", str(out)]
    run = CliRunner().invoke(cli, [*arguments, "--top-n", "all", "--device", "cpu"])
    assert run.exit_code == 0, run.output
    assert "3 images" in run.output
    assert Manifest.open(out).top_n is None
    for wrong in (["--top-n", "many"], ["--top-n", "0"], ["--offset", "low"], ["--terms", "x"]):
        run = CliRunner().invoke(cli, [*arguments, *wrong])
        assert isinstance(run.exception, InputError), wrong
        assert wrong[0] in str(run.exception)
