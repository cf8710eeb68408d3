"""What holds for every format of other software, damages of each, and importing it."""

import base64
import json
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sparta.errors import InputError
from sparta.features.record import ImageFeatures, read_skipped
from sparta.features.writer import SHARD_SIZE
from sparta.readers.base import FeatureReader, ImportOptions, RegionLimit, without_boxes
from sparta.readers.registry import (
    FORMATS,
    Format,
    detect,
    fitting,
    import_features,
    open_reader,
)
from tests.documents import ROOT
from tests.needs import package
from tests.sparta.readers.samples import (
    SAMPLES,
    changes,
    encode,
    random_images,
    read_all,
    same,
    same_features,
    write_vocabulary,
)

IMAGES = random_images("bca")
every_sample = pytest.mark.parametrize("name", SAMPLES)
CONFIDENT = ["vinvl", "oscar-pt", "oscar-captioning", "scene-graph", "lxmert", "bottom-up-npz"]
TEXTS = ["vinvl", "oscar-captioning", "scene-graph", "bottom-up", "lxmert", "precomp"]
SEVERAL = [*CONFIDENT, "bottom-up"]


def opened(name: str, *paths: Path, **options: Any) -> FeatureReader:
    """The reader of a sample, which names what made the features."""
    return open_reader(SAMPLES[name].format, paths, SAMPLES[name].splits, made_by="x152", **options)


def written(name: str, folder: Path, images: list[ImageFeatures] = IMAGES) -> Path:
    folder.mkdir(exist_ok=True)
    return SAMPLES[name].write(folder, images)


def expected(name: str, image: ImageFeatures) -> ImageFeatures:
    """An image as the format can tell it: with no labels, or a single region, the whole photo."""
    if name == "precomp" or name.startswith("hgr"):
        n = len(image.features) if "frames" in name else 1
        whole = np.tile(np.array([0, 0, 1, 1], np.float32), (n, 1))
        return ImageFeatures(image.image_id, image.features[:n], whole, ("",) * n, ("",) * n, 0, 0)
    if name == "embeddings":
        vector = image.features[:1].astype(np.float32)
        return without_boxes(image.image_id, (vector / np.linalg.norm(vector)).astype(np.float16))
    if name in ("bottom-up", "lxmert", "bottom-up-npz"):
        none = ("",) * len(image.labels)
        return replace(image, labels=none, attributes=none)
    return image


def test_every_format_has_a_sample_and_an_example() -> None:
    assert set(FORMATS) == {sample.format for sample in SAMPLES.values()} == set(get_args(Format))
    for name in FORMATS:
        assert f"sparta import {name} " in (ROOT / "docs/features.md").read_text()


@every_sample
def test_what_was_written_is_read_in_order_of_the_ids(tmp_path: Path, name: str) -> None:
    path = written(name, tmp_path)
    reader = opened(name, path)
    assert reader.ids == ["a", "b", "c"]
    assert (reader.source.backbone, reader.source.dimension) == ("x152", 5)
    made = (reader.source.kind, reader.source.weights, reader.source.extra)
    joint = ("patch", "", {"space": "joint"})
    assert made == (joint if name == "embeddings" else ("region", "x152", {}))
    for row, image in enumerate(sorted(IMAGES, key=lambda image: image.image_id)):
        same(reader[row], expected(name, image))
        sized = name in (*SEVERAL, "oscar-captioning in half precision") and name != "oscar-pt"
        assert (reader[row].width, reader[row].height) == ((640, 448) if sized else (0, 0))


@every_sample
def test_files_look_like_their_own_format_alone(tmp_path: Path, name: str) -> None:
    path = written(name, tmp_path)
    assert fitting([path]) == [SAMPLES[name].format]
    assert detect([str(path), path]) == SAMPLES[name].format
    reader = open_reader(SAMPLES[name].format, [str(path)], SAMPLES[name].splits)
    assert import_features(reader, str(tmp_path / "store")).ids == ["a", "b", "c"]


def test_files_of_no_format_or_of_several_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="absent does not exist"):
        detect([tmp_path / "absent"])
    with pytest.raises(InputError, match=r"no format fits; name one instead of auto: vinvl \(f"):
        detect([tmp_path])
    written("precomp", tmp_path)
    np.save(tmp_path / "trn_ft.npy", np.ones((1, 3), np.float32))
    with pytest.raises(InputError, match="could be precomp or hgr; name one instead of auto"):
        detect([tmp_path])
    with pytest.raises(InputError, match="no format fits"):
        detect([tmp_path, written("vinvl", tmp_path / "other")])


def test_a_folder_that_may_not_be_read_fits_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_path: Path, *_: object, **__: object) -> bool:
        raise PermissionError

    for question in ("exists", "is_file", "is_dir", "glob", "open"):
        monkeypatch.setattr(Path, question, refuse)
    assert fitting([Path("secret")]) == []


@pytest.mark.parametrize("name", TEXTS)
def test_byte_order_marks_and_empty_last_lines(tmp_path: Path, name: str) -> None:
    path = written(name, tmp_path)
    for file in tmp_path.iterdir():
        if file.suffix != ".npy":
            end = b"\r\n\n" if file.suffix in (".tsv", ".txt") else b""
            file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes() + end)
    assert fitting([path]) == [name]
    images = read_all(lambda: opened(name, path))
    for found, image in zip(images, sorted(IMAGES, key=lambda image: image.image_id), strict=True):
        same(found, expected(name, image))


@every_sample
@pytest.mark.parametrize("damage", ["missing", "empty"])
def test_a_missing_or_empty_file_is_named(tmp_path: Path, name: str, damage: str) -> None:
    path = written(name, tmp_path / "in", IMAGES[:1])
    for file in [one for one in (tmp_path / "in").rglob("*") if one.is_file()]:
        content = file.read_bytes()
        file.unlink()
        if damage == "empty":
            file.touch()
        if damage == "empty" or file.name != "test_vg_labels.pt":
            with pytest.raises(InputError) as error:
                reader = opened(name, path)
                for row in range(len(reader.ids)):
                    reader[row]
            assert str(tmp_path / "in") in str(error.value)
        file.write_bytes(content)


@pytest.mark.parametrize(
    "name", sorted(SAMPLES.keys() - {"embeddings"})
)  # unpacked as they are opened
@pytest.mark.parametrize("damage", ["cut", "gone"])
def test_files_that_change_while_they_are_read_are_named(
    tmp_path: Path, name: str, damage: str
) -> None:
    """Reading a mapped file behind its end would end the process."""
    reader = opened(name, written(name, tmp_path, random_images("bca", regions=3)))
    for file in [one for one in tmp_path.rglob("*") if one.is_file()]:
        if damage == "cut":
            os.truncate(file, file.stat().st_size // 2)
        else:
            file.unlink()
    reason = "cut short|damaged|'c' is missing" if damage == "cut" else "cannot be read: No such"
    with pytest.raises(InputError, match=rf"{tmp_path}/.*({reason})"):
        reader[2]


@pytest.mark.parametrize("name", ["lxmert", "bottom-up-npz"])
def test_numbers_of_classes_become_words(tmp_path: Path, name: str) -> None:
    vocabulary = write_vocabulary(tmp_path / "genome")
    reader = opened(name, written(name, tmp_path / "in"), vocabulary=vocabulary)
    for row, image in enumerate(sorted(IMAGES, key=lambda image: image.image_id)):
        assert reader[row].labels == tuple(label or "yolk" for label in image.labels)
        assert reader[row].attributes == image.attributes
    assert set(reader.files) > {vocabulary / "objects_vocab.txt"}


@pytest.mark.parametrize("name", SEVERAL)
def test_an_image_of_two_files_is_taken_from_the_first(tmp_path: Path, name: str) -> None:
    one, other = written(name, tmp_path / "a"), written(name, tmp_path / "b", random_images("da"))
    reader = opened(name, one, other, image_suffix=".jpg")
    assert reader.ids == ["a.jpg", "a.jpg", "b.jpg", "c.jpg", "d.jpg"]
    message = rf"{tmp_path}/b\b.*image 'a.* was already in .*{tmp_path}/a\b"
    with pytest.raises(InputError, match=message):
        reader[1]
    store = import_features(reader, tmp_path / "store", skip_bad=True)
    assert store.ids == ["a.jpg", "b.jpg", "c.jpg", "d.jpg"]
    assert store[0].features.tolist() == IMAGES[2].features.tolist()


@pytest.mark.parametrize("name", CONFIDENT)
def test_regions_are_chosen_with_all_that_belongs_to_them(tmp_path: Path, name: str) -> None:
    """The last region of each image is the surest."""
    path = written(name, tmp_path)
    for limit, kept in (
        (RegionLimit(1, "confident"), [-1]),
        (RegionLimit(1), [0]),
        (RegionLimit(2), [0, 1]),
    ):
        reader = opened(name, path, limit=limit)
        assert reader.source.extra == {"regions": limit.limit, "keep": limit.by}
        for row, image in enumerate(sorted(IMAGES, key=lambda image: image.image_id)):
            rows = np.array(kept)[: len(image.features)]
            same(reader[row], expected(name, image).take(rows))


@every_sample
@settings(max_examples=100)
@given(data=st.data())
@pytest.mark.filterwarnings("error::RuntimeWarning", "ignore:Detected pickle protocol")
def test_changed_files(tmp_path: Path, name: str, data: st.DataObject) -> None:
    shutil.rmtree(tmp_path)
    tmp_path.mkdir()
    path = written(name, tmp_path)
    file = data.draw(st.sampled_from(sorted(one for one in tmp_path.rglob("*") if one.is_file())))
    content = data.draw(changes(file))
    file.unlink()  # what was mapped stays as it was
    file.write_bytes(content)
    fitting([path])
    numbered = FORMATS[SAMPLES[name].format].numbered and data.draw(st.booleans())
    options: dict[str, Any] = {"vocabulary": write_vocabulary(tmp_path / "g")} if numbered else {}
    if name in CONFIDENT:
        limits = [RegionLimit(), RegionLimit(2, "confident")]
        options["limit"] = data.draw(st.sampled_from(limits))
    for image in read_all(lambda: opened(name, path, **options)):
        assert not numbered or set(image.labels) <= {"yolk", "traffic light", "dog"}


class Reader(FeatureReader):
    """Images some of which are malformed; one more may bring the process down."""

    def __init__(self, path: Path, ids: Sequence[str], bad: set[int]) -> None:
        super().__init__(ImportOptions("x"), 2, ids, [path])
        self.bad = bad
        self.deadly = -1
        path.touch()

    def __getitem__(self, row: int) -> ImageFeatures:
        if row == self.deadly:
            raise KeyboardInterrupt
        if row in self.bad:
            raise InputError(f"file, line {row + 1}: field: it is bad")
        return without_boxes(self.ids[row], np.full((1, 2), row + 1, np.float16))


def skipped(out: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in (out / "skipped.jsonl").read_text().splitlines()]


def test_bad_images_are_listed_whenever_a_run_breaks(tmp_path: Path) -> None:
    images = 2 * SHARD_SIZE + 10
    bad = {0, 1, SHARD_SIZE, 2 * SHARD_SIZE + 3}
    reader = Reader(tmp_path / "in", [f"{row:05}" for row in range(images)], bad)
    whole = import_features(reader, tmp_path / "whole", skip_bad=True)
    assert len(whole) == images - len(bad)
    for deadly in (5, SHARD_SIZE + 5, 2 * SHARD_SIZE + 5):
        reader.deadly = deadly
        with pytest.raises(KeyboardInterrupt):
            import_features(reader, tmp_path / "broken", skip_bad=True)
    reader.deadly = -1
    again = import_features(reader, tmp_path / "broken", skip_bad=True)
    assert again.fingerprint == whole.fingerprint
    assert again.ids == whole.ids
    assert skipped(tmp_path / "broken") == skipped(tmp_path / "whole")
    assert [line["reason"] for line in skipped(tmp_path / "whole")] == [
        f"file, line {row + 1}: field: it is bad" for row in sorted(bad)
    ]


def test_a_run_that_ended_at_a_bad_image_may_go_on_without_it(tmp_path: Path) -> None:
    ids = [f"{row:05}" for row in range(SHARD_SIZE + 2)]
    reader = Reader(tmp_path / "in", ids, {SHARD_SIZE})
    with pytest.raises(InputError, match=r"line 513: field: it is bad\. Images .* --skip-bad"):
        import_features(reader, tmp_path / "out")
    shown: list[tuple[str, int, int]] = []

    def progress(stage: str, done: int, total: int) -> None:
        shown.append((stage, done, total))

    store = import_features(reader, tmp_path / "out", progress, skip_bad=True)
    assert shown == [("import", SHARD_SIZE + 2, SHARD_SIZE + 2)]  # the first shard was there
    assert len(store) == SHARD_SIZE + 1
    assert skipped(tmp_path / "out") == [
        {"image_id": ids[SHARD_SIZE], "reason": "file, line 513: field: it is bad"}
    ]


def test_an_image_whose_id_would_reach_another_one_is_malformed(tmp_path: Path) -> None:
    ids = ["/abs.jpg", "a.jpg", "b/../a.jpg"]
    with pytest.raises(InputError, match=r"an empty part between slashes.*--skip-bad"):
        import_features(Reader(tmp_path / "in", ids, set()), tmp_path / "out")
    store = import_features(Reader(tmp_path / "in", ids, set()), tmp_path / "out", skip_bad=True)
    assert store.ids == ["a.jpg"]
    with pytest.raises(InputError, match=r"no image could be used; .*skipped\.jsonl says why"):
        import_features(Reader(tmp_path / "in", ["a"], {0}), tmp_path / "none", skip_bad=True)
    assert [one.image_id for one in read_skipped(store.folder)] == ["/abs.jpg", "b/../a.jpg"]


# ---- one table of damages: the damaged image is named, the others are read -----------------------

THREE = random_images("abc", regions=3)
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


def matrix(edit: Callable[[NDArray[Any]], Any]) -> Change:
    """A .npy changed in place."""

    def change(path: Path) -> None:
        found = np.load(path)
        edit(found)
        np.save(path, found)

    return change


def video(value: Any, name: str = "b") -> Change:
    """What an HDF5 file has under the name of a video, nothing for None."""

    def change(path: Path) -> None:
        with package("h5py", "video").File(path, "a") as file:
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
    ("oscar-captioning", "train.hw.tsv", line("[]", 1), "List should have at least 1 item"),
    ("oscar-captioning", "train.hw.tsv", line("640", 1), "1: Field required"),
    ("scene-graph", SEEN, fields(objects=[]), "objects: empty"),
    ("scene-graph", SEEN, first(feature=None), "objects.0.feature: Field required"),
    ("scene-graph", SEEN, first(feature="AAAAAA=="), "objects.0.feature: expected 5 numbers, foun"),
    ("scene-graph", SEEN, first(attr_scores=[0.1] * 9), "attr_scores: expected "),
    ("bottom-up", "a.tsv", line("b\t64"), "expected 6 columns (image_id, image_w, image_h, num_bo"),
    ("bottom-up", "a.tsv", line(2, 3), "boxes: expected 2 rows of 4 numbers of 4 bytes, found 48"),
    ("bottom-up", "a.tsv", line(floats(2, 0, 641, 4), 4), "boxes, row 3: expected x1, y1, x2, y2"),
    ("bottom-up", "a.tsv", line(encode(np.ones((3, 4)) / 2), 4), "these boxes are relative to th"),
    ("bottom-up", "a.tsv", line(encode(np.zeros((3, 5))), 5), "features, row 1: all its numbers a"),
    ("lxmert", "a.tsv", line(encode([2, 0], "<i8"), 3), "objects_id: expected 3 rows of 1 numbers"),
    ("lxmert", "a.tsv", line(encode([1, np.nan, 0]), 4), "objects_conf, row 2: expected 0 to 1, "),
    ("lxmert", "a.tsv", line(encode([0, 0, 3], "<i8"), 3), "objects_id, row 3: expected 0 to 2,"),
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
    (
        "precomp",
        "dev_ims.npy",
        matrix(lambda found: found[1].fill(np.nan)),
        "image 2 (b): features, ",
    ),
    ("hgr of means", MEANS, matrix(lambda found: found[1].fill(0)), "row 1: all its numbers are 0"),
    ("hgr of frames", FRAMES, video(np.ones((1, 4))), "expected [frames, 5], found [1, 4]"),
    ("hgr of frames", FRAMES, video(np.ones((0, 5))), "video 'b': features: no rows"),
    ("hgr of frames", FRAMES, video(None), "video 'b' is missing"),
    ("hgr of frames", FRAMES, video(np.ones((1, 5)), "b/0"), "of [frames, d], found a group"),
    ("hgr of frames", FRAMES, video("words"), "expected numbers of [frames, d], found a single ob"),
]


@pytest.mark.parametrize(
    ("name", "file", "change", "message"),
    DAMAGES,
    ids=[f"{name}: {message}" for name, _, _, message in DAMAGES],
)
def test_a_damaged_image_is_named_and_the_others_are_read(
    tmp_path: Path, name: str, file: str, change: Change, message: str
) -> None:
    (tmp_path / "in").mkdir()
    path = SAMPLES[name].write(tmp_path / "in", THREE)
    [damaged] = (tmp_path / "in").rglob(file)
    change(damaged)
    words = write_vocabulary(tmp_path / "words")
    numbered = FORMATS[SAMPLES[name].format].numbered
    reader = opened(name, path, vocabulary=words if numbered else None)
    failed: dict[str, str] = {}
    for number, image_id in enumerate(reader.ids):
        try:
            image = reader[number]
        except InputError as error:
            failed[image_id] = str(error)
        else:
            same_features(image, next(one for one in THREE if one.image_id == image_id))
    [(image_id, reason)] = failed.items()
    assert image_id == "b" or image_id in reason
    assert message in reason
    assert reason.startswith(str(damaged))
    if damaged.suffix == ".tsv":
        assert reason.startswith(f"{damaged}, line 2: ")
