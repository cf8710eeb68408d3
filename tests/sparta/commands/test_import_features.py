from pathlib import Path

import numpy as np
import pytest
from typer import Typer
from typer.testing import CliRunner

from sparta.commands.import_features import import_
from sparta.errors import InputError
from sparta.features.store import FeatureStore
from tests.sparta.features.readers.bottom_up_files import write
from tests.sparta.features.readers.lxmert_files import line
from tests.sparta.features.readers.oscar_files import random_images, write_scene_graph
from tests.sparta.features.readers.vocabulary_files import write_vocabulary


@pytest.fixture
def app() -> Typer:
    command = Typer()
    command.command()(import_)
    return command


def test_takes_features_of_others(tmp_path: Path, app: Typer) -> None:
    for split, image_id in (("train", "7"), ("dev", "8")):
        np.save(tmp_path / f"{split}_ims.npy", np.ones((1, 2, 3), np.float32))
        (tmp_path / f"{split}_ids.txt").write_text(image_id)
    out = tmp_path / "out"
    asked = ["precomp", str(tmp_path), "--out", str(out), "--image-suffix", ".jpg"]
    splits = ["--split", "train", "--split", "dev:1"]
    done = CliRunner().invoke(app, [*asked, *splits, "--name", "butd"])
    assert done.exit_code == 0, done.output
    assert "2 images in" in done.output.replace("\n", " ")
    store = FeatureStore.open(out)
    assert store.ids == ["7.jpg", "8.jpg"]
    assert store.source.backbone == "butd"


def test_finds_the_format_and_leaves_out_bad_images(tmp_path: Path, app: Typer) -> None:
    folder = write_scene_graph(tmp_path / "in", random_images("abc"))
    content = (folder / "predictions.tsv").read_text()
    (folder / "predictions.tsv").write_text(content[:-20])
    asked = ["auto", str(folder), "--out", str(tmp_path / "out")]
    failed = CliRunner().invoke(app, asked)
    assert isinstance(failed.exception, InputError)
    assert "predictions.tsv, line 3: JSON" in str(failed.exception)
    more = ["--skip-bad", "--regions", "1", "--keep", "confident", "--out", str(tmp_path / "one")]
    done = CliRunner().invoke(app, [*asked, *more], env={"COLUMNS": "300"})
    assert done.exit_code == 0, done.output
    assert "2 images in" in done.output
    assert f"1 images could not be used: see {tmp_path / 'one' / 'skipped.jsonl'}" in done.output
    store = FeatureStore.open(tmp_path / "one")
    assert store.ids == ["a", "b"]
    assert store.source.extra == {"regions": 1, "keep": "confident"}


def test_numbers_of_classes_become_words_with_a_vocabulary(tmp_path: Path, app: Typer) -> None:
    path = write(tmp_path / "a.tsv", [line("7")])
    vocabulary = write_vocabulary(tmp_path / "genome")
    asked = ["auto", str(path), "--regions", "1", "--keep", "confident", "--out"]
    done = CliRunner().invoke(app, [*asked, str(tmp_path / "plain")])
    assert "Regions have no labels: --vocabulary names the classes" in done.output
    assert FeatureStore.open(tmp_path / "plain")[0].labels == ("",)
    named = [*asked, str(tmp_path / "named"), "--vocabulary", str(vocabulary)]
    named += ["--attributes", "0.05"]
    done = CliRunner().invoke(app, named)
    assert done.exit_code == 0, done.output
    assert "Regions have no labels" not in done.output
    store = FeatureStore.open(tmp_path / "named")
    assert (store[0].labels, store[0].attributes) == (("traffic light",), ("red",))
    assert store.source.extra == {"regions": 1, "keep": "confident", "attributes": 0.05}


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (["vinvl", "a", "--vocabulary", "v"], "labels of vinvl are not numbers"),
        (["bottom-up", "a", "--attributes", "0.5"], "files of bottom-up have no attributes"),
        (["auto", "absent"], "absent does not exist"),
        (["precomp", "a", "--split", "dev", "--regions", "5"], "--regions and --keep"),
        (["vinvl", "a", "--split", "dev"], "files of vinvl have no splits"),
        (["precomp", "a", "b", "--split", "dev"], "takes one folder, found 2"),
        (["hgr", "a"], "--split: name one or more of trn, val, tst"),
        (["hgr", "a", "--split", "trn", "--image-suffix", ".mp4"], "--image-suffix"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    tmp_path: Path, app: Typer, asked: list[str], message: str
) -> None:
    result = CliRunner().invoke(app, [*asked, "--out", str(tmp_path / "out")])
    assert isinstance(result.exception, InputError)
    assert message in str(result.exception)
    assert not (tmp_path / "out").exists()
