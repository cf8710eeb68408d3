"""`sparta extract`, `import` and `captions`."""

import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from transformers import ResNetConfig, ResNetModel
from typer.testing import CliRunner

from sparta.captions.read import read_captions
from sparta.captions.record import CaptionedPhoto
from sparta.command_line import cli
from sparta.errors import InputError
from sparta.features.store import FeatureStore
from tests.disk_errors import failing
from tests.fake_hub import HubModel, fake_hub
from tests.indexer.command_line import sparta_here
from tests.sparta.extract.tiny_networks import RESNET, save
from tests.sparta.readers.samples import (
    SAMPLES,
    random_images,
    write_scene_graph,
    write_vocabulary,
)


def run(*arguments: object) -> Any:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


def test_extract_says_what_it_did(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    Image.new("RGB", (20, 20)).save(tmp_path / "photos" / "a.png")
    (tmp_path / "photos" / "b.png").touch()
    out = tmp_path / "out"
    asked = [str(tmp_path / "photos"), "--backbone", "pixels", "--out", str(out), "--workers", "0"]
    first = run("extract", *asked)
    assert first.exit_code == 0, first.output
    assert "1 images, 2 photos in" in first.output
    assert f"1 photos could not be used: see {out / 'skipped.jsonl'}" in first.output
    again = run("extract", *asked)
    assert "is already complete: 1 images" in again.output
    other = run("extract", *asked, "--augmentation", "flip")
    assert isinstance(other.exception, InputError)


@pytest.mark.parametrize(("number", "stays"), [(errno.EIO, False), (errno.ENOSPC, True)])
def test_an_extraction_on_a_failing_disk_says_so_and_continues(
    number: int, stays: bool, tmp_path: Path
) -> None:
    (tmp_path / "photos").mkdir()
    for colour in ("red", "green", "blue"):
        Image.new("RGB", (20, 20), colour).save(tmp_path / "photos" / f"{colour}.png")

    def extract(out: Path) -> Any:
        options = ["--backbone", "pixels", "--out", str(out), "--workers", "0"]
        return sparta_here("extract", str(tmp_path / "photos"), *options)

    def read(out: Path) -> dict[str, list[Any]]:
        return {one.image_id: one.features.tolist() for one in FeatureStore.open(out)}

    (whole := tmp_path / "whole").mkdir()
    with failing(whole) as disk:
        assert extract(whole / "out").returncode == 0
    wanted = read(whole / "out")
    assert len(wanted) == 3 and len(disk.calls) > 5
    for fail_at in range(len(disk.calls)):
        (folder := tmp_path / str(fail_at)).mkdir()
        with failing(folder, fail_at, number, stays) as one:
            done = extract(folder / "out")
        said = f"{one.calls[fail_at:]}: {done.stdout} {done.stderr}"
        if done.returncode:
            assert done.stderr.strip().splitlines()[-1].startswith("error: "), said
            assert extract(folder / "out").returncode == 0, said
        assert read(folder / "out") == wanted, said


def test_a_store_records_the_commit_of_its_backbone(tmp_path: Path) -> None:
    commits = {
        commit * 40: save(ResNetModel(ResNetConfig(**RESNET)), tmp_path / commit) for commit in "ab"
    }
    (tmp_path / "photos").mkdir()
    Image.new("RGB", (20, 20)).save(tmp_path / "photos" / "a.png")
    with fake_hub({"owner/net": HubModel(commits)}) as address:
        environment = os.environ | {"HF_HOME": str(tmp_path / "hub"), "HF_ENDPOINT": address}
        for revision, commit in ((f"@{'a' * 40}", "a"), ("", "b"), ("@main", "b")):
            out = tmp_path / f"out{revision}"
            arguments = [tmp_path / "photos", "--backbone", f"owner/net{revision}", "--out", out]
            command = [sys.executable, "-m", "sparta", "extract", *map(str, arguments)]
            done = subprocess.run(command, env=environment, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            assert FeatureStore.open(out).source.backbone == f"owner/net@{commit * 40}"


def test_features_of_other_software_are_recognised(tmp_path: Path) -> None:
    folder = write_scene_graph(tmp_path / "in", random_images("abc"))
    without = run("extract", str(folder), "--out", str(tmp_path / "out"))
    assert "features of other software: sparta import scene-graph" in str(without.exception)


def test_import_takes_features_of_others(tmp_path: Path) -> None:
    for split, image_id in (("train", "7"), ("dev", "8")):
        np.save(tmp_path / f"{split}_ims.npy", np.ones((1, 2, 3), np.float32))
        (tmp_path / f"{split}_ids.txt").write_text(image_id)
    out = tmp_path / "out"
    asked = ["precomp", str(tmp_path), "--out", str(out), "--image-suffix", ".jpg"]
    splits = ["--split", "train", "--split", "dev:1"]
    done = run("import", *asked, *splits, "--name", "butd")
    assert done.exit_code == 0, done.output
    assert "2 images in" in done.output.replace("\n", " ")
    store = FeatureStore.open(out)
    assert store.ids == ["7.jpg", "8.jpg"]
    assert store.source.backbone == "butd"


def test_finds_the_format_and_leaves_out_bad_images(tmp_path: Path) -> None:
    folder = write_scene_graph(tmp_path / "in", random_images("abc"))
    content = (folder / "predictions.tsv").read_text()
    (folder / "predictions.tsv").write_text(content[:-20])
    asked = ["auto", str(folder), "--out", str(tmp_path / "out")]
    failed = run("import", *asked)
    assert isinstance(failed.exception, InputError)
    assert "predictions.tsv, line 3: JSON" in str(failed.exception)
    more = ["--skip-bad", "--regions", "1", "--keep", "confident", "--out", str(tmp_path / "one")]
    done = run("import", *asked, *more)
    assert done.exit_code == 0, done.output
    assert "2 images in" in done.output
    assert f"1 images could not be used: see {tmp_path / 'one' / 'skipped.jsonl'}" in done.output
    store = FeatureStore.open(tmp_path / "one")
    assert store.ids == ["a", "b"]
    assert store.source.extra == {"regions": 1, "keep": "confident"}


def test_numbers_of_classes_become_words(tmp_path: Path) -> None:
    [image] = random_images("7", regions=3)
    path = SAMPLES["lxmert"].write(tmp_path, [image])
    vocabulary = write_vocabulary(tmp_path / "genome")
    asked = ["auto", str(path), "--regions", "1", "--keep", "confident", "--out"]
    done = run("import", *asked, str(tmp_path / "plain"))
    assert "Regions have no labels: --classes names them" in done.output
    assert FeatureStore.open(tmp_path / "plain")[0].labels == ("",)
    named = [*asked, str(tmp_path / "named"), "--classes", str(vocabulary)]
    named += ["--attributes", "0.05"]
    done = run("import", *named)
    assert done.exit_code == 0, done.output
    assert "Regions have no labels" not in done.output
    store = FeatureStore.open(tmp_path / "named")
    assert store[0].labels == (image.labels[-1] or "yolk",)  # the surest
    assert store[0].attributes == image.attributes[-1:]
    assert store.source.extra == {"regions": 1, "keep": "confident", "attributes": 0.05}


@pytest.mark.parametrize(
    ("command", "options", "message"),
    [
        ("extract a", "", "--backbone or --detector: name what turns the photos into features"),
        ("extract a", "--backbone pixels --regions 50", "--colours need --detector"),
        ("import vinvl a", "--classes v", "labels of vinvl are not numbers"),
        ("import precomp a", "--split dev --regions 5", "--regions and --keep"),
        ("import vinvl a", "--split dev", "files of vinvl have no splits"),
        ("import precomp a b", "--split dev", "takes one folder, found 2"),
        ("import bottom-up a", "--regions 2 --keep confident", "bottom-up attention hold no conf"),
        ("import hgr a", "", "--split: name one or more of trn, val, tst"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    tmp_path: Path, command: str, options: str, message: str
) -> None:
    result = run(*command.split(), *options.split(), "--out", tmp_path / "out")
    assert isinstance(result.exception, InputError)
    assert message in str(result.exception)
    assert not (tmp_path / "out").exists()


@pytest.fixture
def precomp(tmp_path: Path) -> Path:
    folder = tmp_path / "precomp"
    folder.mkdir()
    for split, ids in {"train": (30, 4), "dev": (7, 8, 9), "test": (1,), "testall": (1, 2)}.items():
        texts = [f"{split} {image}, caption {n}" for image in ids for n in range(5)]
        (folder / f"{split}_caps.txt").write_text("".join(text + "\n" for text in texts))
        (folder / f"{split}_ids.txt").write_text("".join(f"{image}\n" for image in ids))
    return folder


def test_splits_of_a_precomp_folder(precomp: Path, tmp_path: Path) -> None:
    out = tmp_path / "captions.jsonl"
    splits = ["--split", "train", "--split", "dev:2", "--split", "testall"]
    assert run("captions", precomp, *splits, "--out", out).exit_code == 0
    wanted = [("train", 30), ("train", 4), ("dev", 7), ("dev", 8), ("testall", 1), ("testall", 2)]
    assert read_captions(out) == [
        CaptionedPhoto(f"{image}", split, tuple(f"{split} {image}, caption {n}" for n in range(5)))
        for split, image in wanted
    ]


def test_what_cannot_be_written(precomp: Path, tmp_path: Path) -> None:
    out = tmp_path / "captions.jsonl"
    refused: tuple[tuple[list[Any], str], ...] = (
        (["--split", "test", "--split", "testall", "--out", out], "'1' is in two of the requested"),
        (["--split", "val", "--out", out], "no split 'val'"),
        (["--split", "train", "--split", "train", "--out", out], "'30' is in two of the requested"),
        (["--out", tmp_path / "captions.txt"], "must be a .jsonl file"),
    )
    for arguments, message in refused:
        error = run("captions", precomp, *arguments).exception
        assert isinstance(error, InputError) and message in str(error)
    assert not out.exists()
