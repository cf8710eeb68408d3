"""`sparta index`, from photos to an index."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from indexer.manifest import Manifest
from sparta.__main__ import cli
from sparta.errors import InputError
from sparta.features.store import FeatureStore


def test_the_command_goes_from_photos_to_an_index(
    model_dir: Path, tmp_path: Path, photos: Path
) -> None:
    out = tmp_path / "index"
    (photos / "empty.jpg").touch()
    arguments = ["index", str(photos), "--model", str(model_dir), "--out", str(out)]
    run = CliRunner().invoke(cli, [*arguments, "--top-n", "all", "--device", "cpu"])
    assert run.exit_code == 0, run.output
    assert "3 images" in run.output
    listed = tmp_path / "index.features" / "plain" / "skipped.jsonl"
    assert f"1 photos could not be used: see {listed}; 1 of them: the file is empty" in run.output
    assert "terms (all kept)" in run.output
    assert Manifest.open(out).top_n is None
    for wrong in (
        ["--top-n", "many"],
        ["--top-n", "0"],
        ["--offset", "low"],
        ["--terms", "x"],
        ["--asked", "no-such.txt"],
        ["--asked-power", "1.5"],
    ):
        run = CliRunner().invoke(cli, [*arguments, *wrong])
        assert isinstance(run.exception, InputError), wrong
        assert wrong[0] in str(run.exception)


def test_the_summary_states_how_terms_were_chosen(
    store: FeatureStore, model_dir: Path, tmp_path: Path
) -> None:
    out, queries = tmp_path / "index", tmp_path / "queries.txt"
    queries.write_text("a dog\n")
    arguments = ["index", str(store.folder), "--model", str(model_dir), "--out", str(out)]
    arguments += ["--top-n", "4", "--device", "cpu"]
    run = CliRunner().invoke(cli, arguments)  # the default: model, which has no frequencies
    assert "(at most 4 an image, by score; asked: none)" in run.output
    run = CliRunner().invoke(cli, [*arguments, "--asked", str(queries), "--asked-power", "0.5"])
    asked = f"queries {Manifest.open(out).asked[:12]}, power 0.5"
    assert f"(at most 4 an image, by score and frequency; asked: {asked})" in run.output
