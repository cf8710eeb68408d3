"""The commands that explain photos and draw the winning regions."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from PIL import Image
from typer.testing import CliRunner

from eval.figures.papers import every_nth
from sparta.captions.read import CaptionedPhoto
from sparta.command_line import cli
from sparta.errors import InputError
from tests.indexer.labelled import labelled_index
from tests.indexer.sealed import change

QUERY = "the brown dog by a ball and a tree"


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made, _, _ = labelled_index(tmp_path_factory.mktemp("labelled"))
    return made


@pytest.fixture(scope="module")
def photos(index: Path) -> Path:
    return index.parent / "photos"


def test_photos_of_the_fixed_rule_stand_at_even_distances() -> None:
    ids = [f"{number:02d}.jpg" for number in range(23)]
    photos = [CaptionedPhoto(i, "val", (f"first of {i}", "second")) for i in reversed(ids)]
    assert every_nth(photos, 5) == [(ids[n], f"first of {ids[n]}") for n in (0, 4, 8, 12, 16)]
    assert len(every_nth(photos, 23)) == 23
    with pytest.raises(InputError, match="--count 24: the split has 23 photos"):
        every_nth(photos, 24)


def run(*arguments: str) -> tuple[str, BaseException | None]:
    found = CliRunner().invoke(cli, arguments, env={"COLUMNS": "150"})
    return found.stdout, found.exception


def test_explain_command(index: Path, photos: Path, tmp_path: Path) -> None:
    out = tmp_path / "why.png"
    table, error = run("explain", str(index), "a.png", QUERY, "cat")
    assert error is None
    assert "label “dog” in “brown dog”, region 0" in table and "a.png: “cat”" in table
    text, error = run("explain", str(index), "a.png", QUERY, "--json")
    assert error is None
    [answer] = json.loads(text)
    assert answer["score"] == sum(term["score"] for term in answer["terms"])
    labels = {term["term"]: term["label"] for term in answer["terms"]}
    assert labels["dog"] == {"token": "dog", "words": "brown dog"} and labels["ball"] is None
    figure = ["--figure", str(out)]
    assert run("explain", str(index), "a.png", QUERY, *figure, "--photos", str(photos))[1] is None
    assert Image.open(out).format == "PNG"
    assert json.loads(out.with_suffix(".json").read_text())["examples"] == [answer]
    known = shutil.copytree(index, tmp_path / "index")
    change(known, photos=str(photos))
    assert run("explain", str(known), "a.png", QUERY, *figure)[1] is None
    (tmp_path / "a.png").write_bytes(b"no photo")
    for arguments, message in (
        (["x.png", "dog"], "the index has no image 'x.png'"),
        (["a.png", " "], "the query is empty"),
        (["a.png", "dog", *figure], "no folder of photos is recorded: give --photos"),
        (["c.png", "dog", *figure, "--photos", str(tmp_path)], "photo 'c.png' in "),
        (["a.png", "dog", *figure, "--photos", str(tmp_path)], "photo 'a.png'"),
        (["a.png", "dog", "--figure", "why.jpg"], "--figure why.jpg must be a .png"),
    ):
        error = run("explain", str(index), *arguments)[1]
        assert isinstance(error, InputError) and message in str(error)


def test_figure_command(index: Path, photos: Path, tmp_path: Path) -> None:
    out, captions = tmp_path / "g.png", tmp_path / "captions.jsonl"
    captions.write_text(
        "".join(
            json.dumps({"image": f"{name}.png", "split": "val", "captions": ["a dog", "cat"]})
            + "\n"
            for name in "cab"
        )
    )
    known = ["eval", "figure", "grounding", str(index), "--photos", str(photos)]
    known += ["--count", "2", "--out", str(out)]
    assert run(*known, "--captions", str(captions))[1] is None
    shown = json.loads(out.with_suffix(".json").read_text())["examples"]
    assert [(one["image_id"], one["query"]) for one in shown] == [
        ("a.png", "a dog"),
        ("b.png", "a dog"),
    ]
    error = run(*known)[1]
    assert isinstance(error, InputError) and "needs --captions" in str(error)
