"""The figure of winning regions, and the command that explains one photo."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle
from PIL import Image
from typer.testing import CliRunner

from eval.figures.grounding import COLOURS, draw, explain_all, open_photos
from eval.figures.papers import every_nth
from indexer.search.lucene import LuceneSearcher
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


def test_boxes_are_drawn_once_each_with_their_strongest_term(index: Path, photos: Path) -> None:
    [found] = explain_all(LuceneSearcher(index), [("a.png", QUERY)])
    photo, text = draw([found], open_photos(photos, ["a.png"])).axes
    boxes = [patch for patch in photo.patches if isinstance(patch, Rectangle)]
    assert [to_hex(box.get_edgecolor()) for box in boxes] == list(COLOURS[:3])
    strongest = [next(t for t in found.terms if t.region == region) for region in (0, 1, 2)]
    strongest.sort(key=lambda term: -term.score)
    for box, tag, term in zip(boxes, photo.texts, strongest, strict=True):
        assert term.box is not None
        left, top, right, bottom = term.box
        expected = (left, 1 - bottom, right - left, bottom - top)
        assert (*box.get_xy(), box.get_width(), box.get_height()) == pytest.approx(expected)
        assert tag.get_text() == f"{term.term} {term.score:g}"
    lines = [line.get_text() for line in text.texts]
    assert "dog  label “dog” in “brown dog”, region 0" in lines
    assert "ball  region 1" in lines and "tree  whole photo" in lines
    assert lines[0] == f"“{QUERY}”" and lines[-1] == "no score: the, by, a"


def test_tags_do_not_hide_each_other(index: Path, photos: Path) -> None:
    [found] = explain_all(LuceneSearcher(index), [("a.png", "ball tree")])
    near = [replace(term, box=(0.1 + 0.1 * n, 0.2, 0.5, 0.5)) for n, term in enumerate(found.terms)]
    shown = replace(found, explanation=replace(found.explanation, terms=near))
    photo, _ = draw([shown], open_photos(photos, ["a.png"])).axes
    (x, over), (_, below) = (tag.get_position() for tag in photo.texts)
    assert x == 0.1 and 1 > over > 0.8 and below < over - 0.06


def test_photos_of_the_fixed_rule_stand_at_even_distances() -> None:
    ids = [f"{number:02d}.jpg" for number in range(23)]
    photos = [CaptionedPhoto(i, "val", (f"first of {i}", "second")) for i in reversed(ids)]
    assert every_nth(photos, 5) == [(ids[n], f"first of {ids[n]}") for n in (0, 4, 8, 12, 16)]
    assert len(every_nth(photos, 23)) == 23
    with pytest.raises(InputError, match="--count 24: the split has 23 photos"):
        every_nth(photos, 24)


def test_photos_that_cannot_be_drawn(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.png").write_bytes(b"no photo")
    for folder, name, message in (
        (None, "a.png", "no folder of photos is recorded: give --photos"),
        (photos, "gone.png", "photo 'gone.png' in .*see --photos"),
        (tmp_path, "bad.png", "photo 'bad.png'"),
    ):
        with pytest.raises(InputError, match=message):
            open_photos(folder, [name])


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
    for arguments, message in (
        (["x.png", "dog"], "the index has no image 'x.png'"),
        (["a.png", " "], "the query is empty"),
        (["a.png", "dog", *figure], "give --photos"),
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


def test_an_index_that_knows_its_photos(index: Path, photos: Path, tmp_path: Path) -> None:
    known = tmp_path / "index"
    shutil.copytree(index, known)
    change(known, photos=str(photos))
    out = tmp_path / "why.png"
    assert run("explain", str(known), "a.png", "dog", "--figure", str(out))[1] is None
    assert out.is_file()
