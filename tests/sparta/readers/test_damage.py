"""One table of damages to the files of all formats: the damaged image is named, others are read."""

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from sparta.errors import InputError
from sparta.readers.base import FeatureReader
from sparta.readers.registry import FORMATS, open_reader
from tests.sparta.readers.samples import (
    SAMPLES,
    encode,
    random_images,
    same_features,
    write_vocabulary,
)

IMAGES = random_images("abc", regions=3)
# Changes a file where it has image b, the second.
Change = Callable[[Path], object]


def line(text: Any, *places: int) -> Change:
    """Give a line, or one of its cells, another text; a function changes what is there."""

    def change(path: Path) -> None:
        lines = path.read_text().splitlines(keepends=True)
        cells = lines[1].rstrip("\n").split("\t")
        for place in places:
            cells[place] = str(text(cells[place]) if callable(text) else text)
        lines[1] = ("\t".join(cells) if places else text) + "\n"
        path.write_text("".join(lines))

    return change


def floats(row: int, column: int, value: float, width: int = 11) -> Callable[[str], str]:
    """A number of a matrix in base64 changed."""

    def change(text: str) -> str:
        found = np.frombuffer(base64.b64decode(text), "<f4").reshape(-1, width).copy()
        found[row, column] = value
        return encode(found)

    return change


def first(**fields: Any) -> Change:
    """Fields changed of the first of image b's objects, or without a value taken away."""

    def change(text: str) -> str:
        whole = json.loads(text)
        found = (whole["objects"] if isinstance(whole, dict) else whole)[0]
        found |= fields
        for name in [name for name in fields if fields[name] is None]:
            del found[name]
        return json.dumps(whole)

    return line(change, -1)


def fields(**values: Any) -> Change:
    """Fields of image b's JSON changed."""
    return line(lambda text: json.dumps(json.loads(text) | values), -1)


def arrays(**values: Any) -> Change:
    """Arrays of a .npz replaced, or with None taken away."""

    def change(path: Path) -> None:
        found = {k: v for k, v in (dict(np.load(path)) | values).items() if v is not None}
        np.savez(path, **found)

    return change


def entry(value: Any, key: Any = "b") -> Change:
    """An entry of a dictionary that PyTorch wrote."""
    return lambda path: torch.save(torch.load(path) | {key: value}, path)


def row(edit: Callable[[NDArray[Any]], Any]) -> Change:
    """A .npy changed in place."""

    def change(path: Path) -> None:
        found = np.load(path)
        edit(found)
        np.save(path, found)

    return change


def video(value: Any, name: str = "b") -> Change:
    """What an HDF5 file has under the name of a video, nothing for None."""

    def change(path: Path) -> None:
        with pytest.importorskip("h5py").File(path, "a") as file:
            del file["b"]
            if value is not None:
                file[name] = value

    return change


VINVL, SEEN, PART = "features.tsv", "predictions.tsv", "train.feature.tsv"
FEATS, LABELS = "test_img_frcnn_feats.pt", "test_vg_labels.pt"
FRAMES, MEANS = "trn_ft.hdf5", "trn_ft.npy"
GOOD = torch.ones(1, 11)

DAMAGES: list[tuple[str, str, Change, str]] = [
    ("vinvl", VINVL, line("b"), "expected 3 columns (image key, number of regions, features), f"),
    ("vinvl", VINVL, line(lambda text: text[:-9] + "*" + text[-8:], 2), "features: not base64"),
    ("vinvl", VINVL, line(7, 1), "features: expected 7 rows of 11 numbers, 308 or 154 byte"),
    ("vinvl", VINVL, line("two", 1), "number of regions: expected 1 or more, found 'two'"),
    ("vinvl", VINVL, line("9" * 5000, 1), "number of regions: expected at most 999999999, found"),
    ("vinvl", VINVL, line(floats(1, 2, np.nan), 2), "features, row 2: expected finite numbers"),
    ("vinvl", VINVL, line(floats(0, 2, 1e5), 2), "within ±65504, found 100000.0"),
    ("vinvl", VINVL, line(floats(2, 5, 1.5), 2), "location, row 3: expected x1, y1, x2, y2, wi"),
    ("vinvl", VINVL, line(floats(2, 7, -0.5), 2), ": numbers are not between 0 and 1"),
    ("vinvl", VINVL, line(floats(2, 9, 0.5), 2), ": width and height are not x2 - x1 and y2 - y1"),
    ("vinvl", VINVL, line(encode(np.full((3, 11), 0.5)), 2), "append them, or import the files in"),
    ("vinvl", SEEN, line(lambda text: text[:-5], 1), "JSON: Invalid JSON"),
    ("vinvl", SEEN, line(3, 1), "JSON: Input should be an object"),
    ("vinvl", SEEN, first(**{"class": None}), "objects.0.class: Field required"),
    ("vinvl", SEEN, first(conf=np.nan), "objects.0.conf: Input should be a finite number"),
    ("vinvl", SEEN, first(rect=[0, 0, 640, 999]), "objects.rect, row 1: expected x1, y1, x2, y2"),
    ("vinvl", SEEN, fields(image_h=0), "image_h: Input should be greater than 0"),
    ("oscar-captioning", PART, fields(features=None), "features: Input should be a valid string"),
    ("oscar-captioning", PART, fields(num_boxes=1), "features: expected 1 rows of 11 numbers"),
    ("oscar-captioning", "train.hw.tsv", line("[]", 1), "List should have at least 1 item"),
    ("oscar-captioning", "train.hw.tsv", line("640", 1), "1: Field required"),
    ("scene-graph", SEEN, fields(objects=[]), "objects: empty"),
    ("scene-graph", SEEN, first(feature=None), "objects.0.feature: Field required"),
    ("scene-graph", SEEN, first(feature="AAAAAA=="), "objects.0.feature: expected 5 numbers, foun"),
    ("scene-graph", SEEN, first(rect=[0, 0, 700, 448]), "objects.rect, row 1: expected x1, y1, x"),
    ("scene-graph", SEEN, first(attr_scores=[0.1] * 9), "attr_scores: expected "),
    ("bottom-up", "a.tsv", line("b\t64"), "expected 6 columns (image_id, image_w, image_h, num_bo"),
    ("bottom-up", "a.tsv", line("wide", 1), "image_w: expected 1 or more, found 'wide'"),
    ("bottom-up", "a.tsv", line(2, 3), "boxes: expected 2 rows of 4 numbers of 4 bytes, found 48"),
    ("bottom-up", "a.tsv", line(lambda text: text[:-16], 5), "features: expected 3 rows of 5 numb"),
    ("bottom-up", "a.tsv", line(floats(2, 0, 641, 4), 4), "boxes, row 3: expected x1, y1, x2, y2"),
    ("bottom-up", "a.tsv", line(encode(np.ones((3, 4)) / 2), 4), "these boxes are relative to th"),
    ("bottom-up", "a.tsv", line(encode(np.zeros((3, 5))), 5), "features, row 1: all its numbers a"),
    ("lxmert", "a.tsv", line(encode([2, 0], "<i8"), 3), "objects_id: expected 3 rows of 1 numbers"),
    ("lxmert", "a.tsv", line(encode([1, np.nan, 0]), 4), "objects_conf, row 2: expected 0 to 1, "),
    ("lxmert", "a.tsv", line(encode([0, 0, 3], "<i8"), 3), "objects_id, row 3: expected 0 to 2,"),
    ("lxmert", "a.tsv", line(encode([0, -1, 0], "<i8"), 5), "attrs_id, row 2: expected 0 to 2, t"),
    ("bottom-up-npz", "b.npz", arrays(x=None), "x: missing"),
    ("bottom-up-npz", "b.npz", arrays(objects_id=None), "objects_id: missing"),
    ("bottom-up-npz", "b.npz", arrays(num_bbox=2), "bbox: expected float [2, 4], found float64 [3"),
    ("bottom-up-npz", "b.npz", arrays(num_bbox=3.5), "num_bbox: expected integer [], found float"),
    ("bottom-up-npz", "b.npz", arrays(image_h=2**40), "image_h: expected at most 2147483647, foun"),
    ("bottom-up-npz", "b.npz", arrays(x=np.ones((2, 5))), "x: expected float [3, 5], found float6"),
    ("bottom-up-npz", "b.npz", arrays(objects_conf=[0.5, 2, 0]), "objects_conf, row 2: expected 0"),
    (
        "bottom-up-npz",
        "b.npz",
        lambda path: np.savez(path, x=np.full(3, None)),
        "damaged or no .np",
    ),
    ("bottom-up-npz", "b.npz", lambda path: path.write_text("hello"), "is damaged or no .npz file"),
    ("oscar-pt", FEATS, entry([1.0]), "image 'b': features: expected a tensor, found list"),
    ("oscar-pt", FEATS, entry(torch.ones(11)), "features: expected [regions, numbers] of floats"),
    ("oscar-pt", FEATS, entry(GOOD.to_sparse()), "torch.sparse_coo"),
    ("oscar-pt", FEATS, entry(torch.ones(1, 6)), "expected rows of more than 6 numbers, found 6"),
    ("oscar-pt", FEATS, entry(torch.ones(0, 11)), "features: no rows"),
    ("oscar-pt", FEATS, entry(GOOD, "d"), "_feats.pt, image 'd': image 'd' is not in "),
    ("oscar-pt", FEATS, entry(GOOD, 1.5), "image '1.5': image key: expected a number or text"),
    ("oscar-pt", LABELS, entry([], "d"), "_labels.pt, image 'd': image 'd' is not in "),
    ("oscar-pt", LABELS, entry([{"conf": 1}]), "image 'b': 0.class: Field required"),
    ("oscar-pt", LABELS, entry('["dog"]'), "image 'b': labels: 0: Input should be"),
    ("oscar-pt", LABELS, entry("\ud800"), "image 'b': labels: not text"),
    ("precomp", "dev_ims.npy", row(lambda found: found[1].fill(np.nan)), "image 2 (b): features, "),
    ("hgr of means", MEANS, row(lambda found: found[1].fill(0)), "row 1: all its numbers are 0"),
    ("hgr of frames", FRAMES, video(np.ones((1, 4))), "expected [frames, 5], found [1, 4]"),
    ("hgr of frames", FRAMES, video(np.ones((0, 5))), "video 'b': features: no rows"),
    ("hgr of frames", FRAMES, video(None), "video 'b' is missing"),
    ("hgr of frames", FRAMES, video(np.ones((1, 5)), "b/0"), "of [frames, d], found a group"),
    ("hgr of frames", FRAMES, video("words"), "expected numbers of [frames, d], found a single ob"),
]


def opened(name: str, path: Path, folder: Path) -> FeatureReader:
    sample = SAMPLES[name]
    words = write_vocabulary(folder) if FORMATS[sample.format].numbered else None
    return open_reader(sample.format, [path], sample.splits, vocabulary=words)


@pytest.mark.parametrize(
    ("name", "file", "change", "message"),
    DAMAGES,
    ids=[f"{name}: {message}" for name, _, _, message in DAMAGES],
)
def test_a_damaged_image_is_named_and_the_others_are_read(
    tmp_path: Path, name: str, file: str, change: Change, message: str
) -> None:
    (tmp_path / "in").mkdir()
    path = SAMPLES[name].write(tmp_path / "in", IMAGES)
    [damaged] = (tmp_path / "in").rglob(file)
    change(damaged)
    reader = opened(name, path, tmp_path / "words")
    failed: dict[str, str] = {}
    for number, image_id in enumerate(reader.ids):
        try:
            image = reader[number]
        except InputError as error:
            failed[image_id] = str(error)
        else:
            same_features(image, next(one for one in IMAGES if one.image_id == image_id))
    [(image_id, reason)] = failed.items()
    assert image_id == "b" or image_id in reason
    assert message in reason
    assert reason.startswith(str(damaged))
    if damaged.suffix == ".tsv":
        assert reason.startswith(f"{damaged}, line 2: ")
