"""`sparta index`, from photos to an index."""

from __future__ import annotations

import shutil
from pathlib import Path

from typer.testing import CliRunner

from indexer.manifest import Manifest
from indexer.settings import PREFERENCES, USUAL
from sparta.command_line import cli
from sparta.errors import InputError
from sparta.features.store import FeatureStore
from sparta.tokenizer import WordPieceTokenizer
from tests.indexer.tiny import save_model


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
    (photos / "empty.jpg").unlink()
    shutil.copy(min(photos.iterdir()), photos / "one more.jpg")
    run = CliRunner().invoke(cli, [*arguments, "--device", "cpu"])
    assert "4 images" in run.output
    assert "1 photos were added, 0 changed and 1 removed; features of 3 are kept" in run.output
    assert "could not be used" not in run.output
    for wrong in (
        ["--top-n", "many"],
        ["--top-n", "0"],
        ["--offset", "low"],
        ["--terms", "x"],
        ["--asked", "no-such.txt"],
        ["--asked-power", "1.5"],
        ["--prefer", "beauty"],
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
    missing = "The models record no term frequencies, so that terms were chosen by score alone"
    assert missing in run.output
    run = CliRunner().invoke(cli, [*arguments, "--asked", str(queries), "--asked-power", "0.5"])
    asked = f"queries {Manifest.open(out).asked[:12]}, power 0.5"
    assert f"(at most 4 an image, by score and frequency; asked: {asked})" in run.output
    assert missing not in run.output
    run = CliRunner().invoke(cli, [*arguments, "--asked", "none"])
    assert missing not in run.output


def test_named_choices_and_the_options_that_go_before_them(
    store: FeatureStore, tokenizer: WordPieceTokenizer, tmp_path: Path
) -> None:
    model = save_model(tmp_path / "model", tokenizer, captions=["a red dog", "the dog"])
    out = tmp_path / "index"
    arguments = ["index", str(store.folder), "--model", str(model), "--out", str(out)]

    def built(*more: str) -> tuple[int | None, float, int]:
        run = CliRunner().invoke(cli, [*arguments, "--device", "cpu", *more])
        assert run.exit_code == 0, run.output
        manifest = Manifest.open(out)
        assert manifest.asked == ("none" if manifest.top_n is None else "model")
        return manifest.top_n, manifest.asked_power, manifest.bits

    assert built() == USUAL
    assert built("--prefer", "size") == PREFERENCES["size"]
    given = ["--top-n", "all", "--bits", "7"]
    assert built("--prefer", "speed", *given) == (None, 0, 7)
    given = ["--asked-power", "0.11"]
    size = PREFERENCES["recall"]
    assert built("--prefer", "recall", *given) == (size.top_n, 0.11, size.bits)


def test_help_shows_what_a_named_choice_is() -> None:
    run = CliRunner().invoke(cli, ["index", "--help"], env={"COLUMNS": "400"})
    for name, (top_n, power, bits) in PREFERENCES.items():
        assert f"{name}: --top-n {top_n} --asked-power {power:g} --bits {bits}" in run.output
