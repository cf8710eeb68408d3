"""The commands that explain photos and draw the winning regions."""

import json
import shutil
from pathlib import Path

import pytest
from PIL import Image

from eval.figures.papers import every_nth
from sparta.captions.read import CaptionedPhoto
from sparta.errors import InputError
from tests.eval.data import record, refused, shown, write_captions
from tests.indexer.labelled import labelled_index
from tests.indexer.random_postings import change_manifest

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


def test_explain_command(index: Path, photos: Path, tmp_path: Path) -> None:
    out = tmp_path / "why.png"
    asked = ["explain", index, "a.png"]
    table = shown(*asked, QUERY, "cat")
    assert "label “dog” in “brown dog”, region 0" in table and "a.png: “cat”" in table
    [answer] = record(*asked, QUERY)
    assert answer["score"] == sum(term["score"] for term in answer["terms"])
    labels = {term["term"]: term["label"] for term in answer["terms"]}
    assert labels["dog"] == {"token": "dog", "words": "brown dog"} and labels["ball"] is None
    figure = ["--figure", out]
    shown(*asked, QUERY, *figure, "--photos", photos)
    assert Image.open(out).format == "PNG"
    assert json.loads(out.with_suffix(".json").read_text())["examples"] == [answer]
    known = shutil.copytree(index, tmp_path / "index")
    change_manifest(known, photos=str(photos))
    shown("explain", known, "a.png", QUERY, *figure)
    (tmp_path / "a.png").write_bytes(b"no photo")
    for arguments, message in (
        (["x.png", "dog"], "the index has no image 'x.png'"),
        (["a.png", " "], "the query is empty"),
        (["a.png", "dog", *figure], "no folder of photos is recorded: give --photos"),
        (["c.png", "dog", *figure, "--photos", tmp_path], "photo 'c.png' in "),
        (["a.png", "dog", *figure, "--photos", tmp_path], "photo 'a.png'"),
        (["a.png", "dog", "--figure", "why.jpg"], "--figure why.jpg must be a .png"),
    ):
        refused(message, "explain", index, *arguments)


def test_figure_command(index: Path, photos: Path, tmp_path: Path) -> None:
    out = tmp_path / "g.png"
    written = [CaptionedPhoto(f"{name}.png", "val", ("a dog", "cat")) for name in "cab"]
    captions = write_captions(tmp_path / "captions.jsonl", written)
    known = ["eval", "figure", "grounding", index, "--photos", photos]
    known += ["--count", 2, "--out", out]
    shown(*known, "--captions", captions)
    examples = json.loads(out.with_suffix(".json").read_text())["examples"]
    found = [(one["image_id"], one["query"]) for one in examples]
    assert found == [("a.png", "a dog"), ("b.png", "a dog")]
    refused("needs --captions", *known)
