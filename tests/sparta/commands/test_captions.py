import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sparta.captions.read import read_captions
from sparta.captions.record import CaptionedPhoto
from sparta.command_line import cli
from sparta.errors import InputError


def run(*arguments: str | Path) -> BaseException | None:
    return CliRunner().invoke(cli, ["captions", *map(str, arguments)]).exception


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
    assert run(precomp, *splits, "--image-suffix", ".jpg", "--out", out) is None
    wanted = [("train", 30), ("train", 4), ("dev", 7), ("dev", 8), ("testall", 1), ("testall", 2)]
    assert read_captions(out) == [
        CaptionedPhoto(
            f"{image}.jpg", split, tuple(f"{split} {image}, caption {n}" for n in range(5))
        )
        for split, image in wanted
    ]


def test_karpathys_images_by_number(tmp_path: Path) -> None:
    image = {"filename": "a_7.jpg", "filepath": "val2014", "cocoid": 7, "split": "test"}
    content = {"images": [image | {"sentences": [{"raw": f"a café {n}"} for n in range(6)]}]}
    source, out = tmp_path / "dataset_coco.json", tmp_path / "captions.jsonl"
    source.write_text(json.dumps(content))
    assert run(source, "--image-key", "cocoid", "--out", out) is None
    texts = tuple(f"a café {n}" for n in range(5))
    assert read_captions(out) == [CaptionedPhoto("7", "test", texts)]
    assert run(source, "--captions-per-photo", "6", "--out", out) is None
    assert len(read_captions(out)[0].captions) == 6


def test_what_cannot_be_written(precomp: Path, tmp_path: Path) -> None:
    out = tmp_path / "captions.jsonl"
    refused: tuple[tuple[list[Any], str], ...] = (
        (["--split", "test", "--split", "testall", "--out", out], "'1' is in two of the requested"),
        (["--split", "val", "--out", out], "no split 'val'"),
        (["--split", "train", "--split", "train", "--out", out], "'30' is in two of the requested"),
        (["--image-key", "id", "--out", out], "--image-key 'id': expected file or cocoid"),
        (["--out", tmp_path / "captions.txt"], "must be a .jsonl file"),
    )
    for arguments, message in refused:
        error = run(precomp, *arguments)
        assert isinstance(error, InputError) and message in str(error)
    assert not out.exists()
