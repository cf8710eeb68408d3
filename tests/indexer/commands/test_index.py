"""`sparta index` and `sparta add --dense`: from photos or features to an index."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from indexer.dense.manifest import DenseManifest, dense_names
from indexer.manifest import Manifest
from indexer.settings import PREFERENCES, USUAL
from indexer.store.changes import Add, Delete
from indexer.update.images import delete_images
from sparta.command_line import cli
from sparta.errors import InputError
from sparta.features.store import FeatureStore
from tests.indexer.live_index import write
from tests.indexer.store.images import image
from tests.indexer.tiny import SOURCE, save_model
from tests.indexer.tiny_dense import save_dense_model
from tests.indexer.vocabulary import TOKENIZER


def test_the_command_goes_from_photos_to_an_index(
    model_dir: Path, tmp_path: Path, photos: Path
) -> None:
    out = tmp_path / "index"
    (photos / "empty.jpg").touch()
    arguments = ["index", str(photos), "--model", str(model_dir), "--out", str(out)]
    run = CliRunner().invoke(cli, [*arguments, "--top-n", "all", "--device", "cpu"])
    assert run.exit_code == 0, run.output
    assert "3 images" in run.output
    listed = out / "skipped.jsonl"
    assert f"1 photos could not be used: see {listed}; 1 of them: the file is empty" in run.output
    assert "terms (all kept)" in run.output
    assert Manifest.open(out).top_n is None
    assert {path.name for path in tmp_path.iterdir()} == {"index", "photos"}
    run = CliRunner().invoke(cli, [*arguments, "--keep-features", "--device", "cpu"])
    assert run.exit_code == 0 and (tmp_path / "index.features" / "plain").is_dir()
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
        ["--frequencies", "no-such.txt"],
        ["--frequency-power", "1.5"],
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
    missing = "The models record no term frequencies, so that terms were chosen by score alone"
    for more, said, warned in (
        ([], "by score; term frequencies: none)", True),
        (["--frequencies", str(queries)], "by score and term frequencies of the queries", False),
        (["--frequencies", "none"], "by score; term frequencies: none)", False),
    ):
        run = CliRunner().invoke(cli, [*arguments, "--top-n", "4", "--device", "cpu", *more])
        assert f"(at most 4 an image, {said}" in run.output
        assert (missing in run.output) == warned


def test_named_choices_and_the_options_that_go_before_them(
    store: FeatureStore, tmp_path: Path
) -> None:
    model = save_model(tmp_path / "model", TOKENIZER, captions=["a red dog", "the dog"])
    out = tmp_path / "index"
    arguments = ["index", str(store.folder), "--model", str(model), "--out", str(out)]

    def built(*more: str) -> tuple[int | None, float, int]:
        run = CliRunner().invoke(cli, [*arguments, "--device", "cpu", *more])
        assert run.exit_code == 0, run.output
        manifest = Manifest.open(out)
        assert manifest.frequencies == ("none" if manifest.top_n is None else "model")
        return manifest.top_n, manifest.frequency_power, manifest.bits

    assert built() == (USUAL.top_n, 0.3, USUAL.bits)
    assert built("--prefer", "size") == PREFERENCES["size"]
    given = ["--top-n", "all", "--bits", "7"]
    assert built("--prefer", "speed", *given) == (None, 0, 7)
    given = ["--frequency-power", "0.11"]
    size = PREFERENCES["recall"]
    assert built("--prefer", "recall", *given) == (size.top_n, 0.11, size.bits)
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | {"frequency_power": 0.6}))
    assert built() == (USUAL.top_n, 0.6, USUAL.bits)


def test_dense_models_are_added_and_refused(
    store: FeatureStore,
    model_dir: Path,
    dense_model: Path,
    multi_view: Path,
    tmp_path: Path,
) -> None:
    out = tmp_path / "index"

    def run(command: str, *options: str) -> Any:
        folders = [str(store.folder), "--out", str(out)]
        if command == "add":
            folders = [str(out), str(store.folder)]
        return CliRunner().invoke(cli, [command, *folders, "--device", "cpu", *options])

    refused = run("add", "--dense", str(dense_model))
    assert isinstance(refused.exception, InputError)
    assert "build it with `sparta index` first" in str(refused.exception)
    sparse = run("index", "--model", str(model_dir))
    assert sparse.exit_code == 0 and "21 images, " in sparse.output, sparse.output
    dense = run("add", "--dense", str(dense_model))
    assert dense.exit_code == 0, dense.output
    assert "vse++: vectors of 21 images, 16 numbers" in dense.output
    assert dense_names(out) == ["vse++"]
    more = run("add", "--dense", str(multi_view), "--dense", f"second={dense_model}", "--hnsw")
    assert more.exit_code == 0, more.output
    assert "mv-vse: vectors of 21 images in 3 views" in more.output and "hnsw" in more.output
    assert dense_names(out) == ["mv-vse", "second", "vse++"]
    # Features that do not fit are found before the index is changed.
    other = save_dense_model(tmp_path / "other", source=replace(SOURCE, dimension=5))
    before = {name: DenseManifest.open(out, name, Manifest.open(out)) for name in dense_names(out)}
    wrong = run("add", "--dense", str(dense_model), "--dense", f"other={other}")
    assert "768" in str(wrong.exception)
    after = {name: DenseManifest.open(out, name, Manifest.open(out)) for name in dense_names(out)}
    assert after == before
    # An index that was written to.
    write(out, Delete(store.ids[0]), Add(image("new", {3: 1})))
    dense = run("add", "--dense", str(dense_model))
    assert "vse++: vectors of 20 images, 16 numbers" in dense.output, dense.output
    assert "flat; 1 without" in dense.output.replace("\n", " ")
    delete_images(out, ["new"])
    assert run("index", "--model", str(model_dir)).exit_code == 0
    assert dense_names(out) == []
