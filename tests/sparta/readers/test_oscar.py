"""Files of VinVL, of Oscar's captioning data and of scene_graph_benchmark."""

import json
import logging
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sparta.errors import InputError
from sparta.readers.base import FeatureReader, RegionLimit
from sparta.readers.registry import fitting, import_features, open_reader
from tests.sparta.readers.samples import (
    encode,
    objects,
    random_images,
    rows,
    same,
    write_captioning,
    write_cells,
    write_scene_graph,
    write_sizes,
)

# Numbers float16 holds exactly: 5 features, then x1, y1, x2, y2, w, h.
DOG = [1, -2, 3, 4, 5, 0.25, 0.5, 0.75, 1, 0.5, 0.5]
WHOLE = [0.5, 0, 0, 0, -1, 0, 0, 1, 1, 1, 1]
ROWS = np.array([DOG, WHOLE])
OBJECTS = [
    {"class": "dog", "conf": 0.9, "rect": [8, 24, 24, 48], "attributes": ["brown", "wet"]},
    {"class": "", "conf": 1.0, "rect": [0, 0, 32, 48]},
]


def feature_line(key: str, rows: Any = ROWS, dtype: str = "<f4", count: object = None) -> str:
    return f"{key}\t{len(rows) if count is None else count}\t{encode(rows, dtype)}\n"


def label_line(key: str, objects: object = OBJECTS, **more: object) -> str:
    return f"{key}\t{json.dumps({'image_h': 48, 'image_w': 32, 'objects': objects} | more)}\n"


def write_folder(
    folder: Path, features: Sequence[str], labels: Sequence[str] | None = None
) -> Path:
    """A folder of VinVL's files; by default with good labels for every line of features."""
    folder.mkdir(exist_ok=True)
    keys = [line.split("\t")[0] for line in features]
    lines = [label_line(key) for key in keys] if labels is None else labels
    (folder / "features.tsv").write_text("".join(features))
    (folder / "predictions.tsv").write_text("".join(lines))
    return folder


def test_lines_in_half_and_single_precision_may_be_mixed(tmp_path: Path) -> None:
    lines = [feature_line("a", dtype="<f2"), feature_line("b"), feature_line("c", ROWS[:1])]
    labels = [label_line("a"), label_line("b"), label_line("c", OBJECTS[:1])]
    reader = open_reader("vinvl", [write_folder(tmp_path, lines, labels)])
    for row, count in enumerate([2, 2, 1]):
        assert reader[row].features.tolist() == ROWS[:count, :5].tolist()


def test_order_is_of_the_ids_not_of_the_keys(tmp_path: Path) -> None:
    # "a" < "a-b", but "a.jpg" > "a-b.jpg": a store is searched by id.
    folder = write_folder(tmp_path / "in", [feature_line("a"), feature_line("a-b")])
    store = import_features(open_reader("vinvl", [folder], image_suffix=".jpg"), tmp_path / "store")
    assert store.ids == ["a-b.jpg", "a.jpg"]
    assert store.index("a.jpg") == 1


# A line missing at the end, not at a line's start, none, no number, beyond the end, beyond 64 bits,
# not rising.
@pytest.mark.parametrize(
    "text", ["0\n", "0\n5\n", "", "0\nx\n", "0\n99999\n", f"0\n{10**30}\n", "0\nSECOND\nSECOND\n"]
)
def test_an_index_of_another_file_is_refused(tmp_path: Path, text: str) -> None:
    folder = write_folder(tmp_path, [feature_line("a"), feature_line("b")])
    second = len(feature_line("a"))
    (folder / "features.lineidx").write_text(text.replace("SECOND", str(second)))
    with pytest.raises(InputError, match=r"features\.lineidx"):
        open_reader("vinvl", [folder])


def changed_row(row: int, column: int | slice, value: float) -> NDArray[Any]:
    rows = ROWS.copy()
    rows[row, column] = value
    return rows


def located(*location: float) -> NDArray[Any]:
    return np.array([DOG, [*WHOLE[:5], *location]])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (feature_line("b")[:-9] + "*" + feature_line("b")[-8:], "features: not base64"),
        ("b\n", "expected 3 columns (image key, number of regions, features), found 1"),
        (feature_line("b", count=3), "features: expected 3 rows of 11 numbers, 132 or 66 bytes"),
        (feature_line("b", count="two"), "number of regions: expected 1 or more, found 'two'"),
        (feature_line("b", changed_row(1, 2, np.nan)), "features, row 2: expected finite numbers"),
        (feature_line("b", changed_row(0, 2, 1e5)), "within ±65504, found 100000.0"),
        (
            feature_line("b", changed_row(0, slice(0, 5), 0)),
            "features, row 1: all its numbers are 0",
        ),
        (feature_line("b", located(0.5, 0, 0.25, 1, 0.25, 1)), "0.25, 1: x1 > x2 or y1 > y2"),
        (feature_line("b", located(0, 0, 200, 224, 200, 224)), "are not between 0 and 1"),
        # xmin, xmax, ymin, ymax, w, h: the order of VisualSparta's equation 3.
        (feature_line("b", located(0, 0.25, 0.5, 1, 0.25, 0.5)), "are not x2 - x1 and y2 - y1"),
    ],
)
def test_a_malformed_line_of_vinvl_is_named(tmp_path: Path, line: str, message: str) -> None:
    folder = write_folder(tmp_path, [feature_line("a"), line], [label_line("a"), label_line("b")])
    reader = open_reader("vinvl", [folder])
    text = re.escape(f"{folder / 'features.tsv'}, line 2: ") + ".*" + re.escape(message)
    with pytest.raises(InputError, match=text):
        reader[1]


SPARSE = np.array([[3.25, 0, 1, 0.5, 0, 0, 0, 0, 0, 0, 0], [0, 0, 2, 0, 1, 0.75, 0, 0, 0.5, 0, 2]])
FOUR = np.concatenate([ROWS[:, :5], ROWS[:, :2] * 3, ROWS[:, 5:9]], axis=1)


@pytest.mark.parametrize("dtype", ["<f4", "<f2"])
@pytest.mark.parametrize(
    ("rows", "cure"),
    [
        (ROWS[:, :5].repeat(3, axis=1) + 0.5, "Append the regions' locations, or import the"),
        (SPARSE, "Append the regions' locations, or import the"),
        (FOUR, "The last four may be x1, y1, x2, y2: append x2 - x1"),
    ],
    ids=["none", "many zeros", "four numbers"],
)
def test_rows_without_locations_are_told_from_wrong_ones(
    tmp_path: Path, rows: NDArray[Any], cure: str, dtype: str
) -> None:
    folder = write_folder(tmp_path, [feature_line("a", rows, dtype=dtype)], [label_line("a")])
    text = r"features\.tsv, line 1: features: no row ends with the six numbers of a location, x1, "
    with pytest.raises(InputError, match=f"{text}.*{re.escape(cure)}"):
        open_reader("vinvl", [folder])[0]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("b\n", "expected 2 columns (image key, JSON), found 1"),
        (label_line("b")[:-5] + "\n", "JSON: Invalid JSON"),
        ("b\t3\n", "JSON: Input should be an object"),
        (label_line("b", [{"conf": 1}] * 2), "objects.0.class: Field required"),
        (
            label_line("b", [{"class": "", "conf": math.nan}]),
            "objects.0.conf: Input should be a fin",
        ),
        (
            label_line("b", [{"class": "", "rect": [0, 0, 32, 99]}]),
            "objects.rect, row 1: expected x1",
        ),
        (label_line("b", image_h=0), "image_h: Input should be greater than 0"),
    ],
)
def test_malformed_labels_are_named(tmp_path: Path, line: str, message: str) -> None:
    features = [feature_line("a"), feature_line("b")]
    folder = write_folder(tmp_path, features, [label_line("a"), line])
    reader = open_reader("vinvl", [folder])
    text = re.escape(f"{folder / 'predictions.tsv'}, line 2: {message}")
    with pytest.raises(InputError, match=text):
        reader[1]


def failures(reader: FeatureReader) -> dict[int, str]:
    """What each row that cannot be read raises."""
    found = {}
    for row in range(len(reader.ids)):
        try:
            reader[row]
        except InputError as error:
            found[row] = str(error)
    return found


A, B = feature_line("a"), feature_line("b")


LABELS = [label_line("a"), label_line("b")]


@pytest.mark.parametrize(
    ("features", "labels", "row", "message"),
    [
        ([A, B, A], LABELS, 1, "features.tsv, line 3: image 'a' was already in IN/features.tsv, l"),
        ([A, B], [*LABELS, LABELS[0]], 1, "predictions.tsv, line 3: image 'a' was already in IN/p"),
        ([A, B], LABELS[:1], 1, "features.tsv, line 2: image 'b' is not in IN/predictions.tsv"),
        ([A], LABELS, 1, "predictions.tsv, line 2: image 'b' is not in IN/features.tsv"),
        ([A, "\n", B], LABELS, 0, "features.tsv, line 2: image key: it is blank"),
        ([A, B[:-9]], LABELS, 1, "features.tsv, line 2: features: "),
        ([feature_line("a", count=7), B], LABELS, 0, "features.tsv, line 1: features: "),
    ],
)
def test_an_image_that_cannot_be_used_leaves_the_others(
    tmp_path: Path, features: list[str], labels: list[str] | None, row: int, message: str
) -> None:
    folder = write_folder(tmp_path / "in", features, labels)
    reader = open_reader("vinvl", [folder])
    found = failures(reader)
    assert list(found) == [row]
    assert f"{folder}/{message}".replace("IN", str(folder)) in found[row]
    store = import_features(reader, tmp_path / "out", skip_bad=True)
    assert store.ids == [image_id for at, image_id in enumerate(reader.ids) if at != row]
    lines = (tmp_path / "out" / "skipped.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [
        {"image_id": reader.ids[row], "reason": found[row]}
    ]


def test_keys_that_are_not_text_are_named(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, [A, B])
    (folder / "features.tsv").write_bytes(A.encode() + B.encode().replace(b"b\t", b"\xff\t", 1))
    reader = open_reader("vinvl", [folder])
    assert list(reader.ids) == ["\\xff", "a", "b"]
    assert failures(reader) == {
        0: f"{folder}/features.tsv, line 2: image key: not UTF-8",
        2: f"{folder}/predictions.tsv, line 2: image 'b' is not in {folder}/features.tsv",
    }


def test_labels_that_are_in_both_folders_hide_no_features(tmp_path: Path) -> None:
    both = [label_line("a"), label_line("b")]
    one, other = (
        write_folder(tmp_path / "one", [B], both),
        write_folder(tmp_path / "other", [A], both),
    )
    reader = open_reader("vinvl", [one, other])
    assert list(reader.ids) == ["a", "a", "b", "b"]
    assert set(failures(reader)) == {1, 3}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 0, "b": 0}', "image 'b' is not in line 1; delete it"),
        ('{"a": 0}', "it lacks image 'b'; delete it"),
        ('{"a": "0"}', "a: Input should be a valid integer"),
    ],
)
def test_an_index_of_images_must_be_of_the_file(tmp_path: Path, text: str, message: str) -> None:
    folder = write_folder(tmp_path, [A, B])
    (folder / "imageid2idx.json").write_text('{"b": 1, "a": 0}')
    assert open_reader("vinvl", [folder])[1].image_id == "b"
    (folder / "imageid2idx.json").write_text(text)
    with pytest.raises(InputError, match=r"imageid2idx\.json.*" + re.escape(message)):
        open_reader("vinvl", [folder])


def test_a_bare_list_of_objects_tells_no_size(tmp_path: Path) -> None:
    image = open_reader("vinvl", [write_folder(tmp_path, [A], [f"a\t{json.dumps(OBJECTS)}\n"])])[0]
    assert image.labels == ("dog", "")
    assert image.boxes.tolist() == [[0.25, 0.5, 0.75, 1], [0, 0, 1, 1]]
    assert (image.width, image.height) == (0, 0)


def test_reads_real_regions(shared: Path) -> None:
    folder = shared / "regions" / "val"
    if not folder.is_dir():
        pytest.skip(f"real regions are not installed: {folder} is absent")
    reader = open_reader("vinvl", [folder], image_suffix=".jpg")
    assert len(reader.ids) == 1000
    assert reader.source.dimension == 256
    for row in (0, 500, 999):
        image = reader[row]
        assert image.boxes[-1].tolist() == [0, 0, 1, 1]  # the last region is the whole photo
        assert image.labels[-1] == ""
        assert (image.width, image.height) == (224, 224)
        assert 1 <= len(image.features) <= 11
    image = reader[reader.ids.index("1022454332_6af2c1449a.jpg")]
    assert image.labels == ("person", "person", "car", "person", "")
    assert image.attributes == ("black", "black", "blue", "grey", "")
    np.testing.assert_allclose(image.boxes[0] * 224, [119.4, 126.4, 173.4, 224.0], atol=0.1, rtol=0)


IMAGES = random_images("abc")


def test_labels_of_another_detector_are_told_by_their_boxes(tmp_path: Path) -> None:
    folder = write_captioning(tmp_path, IMAGES)
    image = max(IMAGES, key=lambda image: len(image.features))
    whole = {"class": "street", "rect": [0, 0, image.width, image.height]}
    write_cells(folder / "train.label.tsv", [(each.image_id, [whole]) for each in IMAGES])
    reader = open_reader("oscar-captioning", [folder])
    found = reader[reader.ids.index(image.image_id)]
    assert len(found.labels) > 1
    assert found.labels[-1] == "street"  # the last region is the whole photo
    assert not any(found.labels[:-1])


def test_labels_and_sizes_may_be_absent(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = write_captioning(tmp_path, IMAGES)
    (folder / "train.yaml").write_text("feature: train.feature.tsv\nhw: null\n")
    with caplog.at_level(logging.WARNING):
        reader = open_reader("oscar-captioning", [folder])
    assert "train.yaml names no labels" in caplog.text
    assert not any(reader[0].labels)
    assert (reader[0].width, reader[0].height) == (0, 0)
    with pytest.raises(InputError, match=r"feature\.tsv, line 1: confidence: missing"):
        open_reader("oscar-captioning", [folder], limit=RegionLimit(1, "confident"))[0]


@pytest.mark.parametrize(
    ("part", "cell", "message"),
    [
        ("feature", {"num_boxes": 2}, "features: Field required"),
        ("feature", {"num_boxes": 1, "features": "AAA"}, "features: not base64"),
        ("feature", {"num_boxes": 1, "features": "AAAA"}, "features: expected 1 rows of 11 num"),
        ("label", [{"conf": 1}], "0.class: Field required"),
        ("hw", [], "List should have at least 1 item"),
        ("hw", 640, "1: Field required"),
    ],
)
def test_a_malformed_line_is_named(tmp_path: Path, part: str, cell: Any, message: str) -> None:
    folder = write_captioning(tmp_path, IMAGES)
    path = folder / f"train.{part}.tsv"
    lines = path.read_text().splitlines(keepends=True)
    write_cells(path, [("b", cell)])
    path.write_text(lines[0] + path.read_text() + lines[2])
    reader = open_reader("oscar-captioning", [folder])
    with pytest.raises(InputError) as raised:
        reader[1]
    assert str(raised.value).startswith(f"{path}, line 2: ")
    assert message in str(raised.value)
    same(reader[2], IMAGES[2])


@pytest.mark.parametrize("line", ['b\t{"width": 640, "height": 448}\n', "b\t448 640\n"])
def test_sizes_are_written_in_several_ways(tmp_path: Path, line: str) -> None:
    folder = write_captioning(tmp_path, IMAGES)
    (folder / "train.hw.tsv").write_text(line)
    reader = open_reader("oscar-captioning", [folder])
    assert (reader[1].width, reader[1].height) == (640, 448)
    with pytest.raises(InputError, match=r"train\.hw\.tsv: size: missing for image 'a'"):
        reader[0]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("label: train.label.tsv\n", "feature: it is missing"),
        ("feature: [", "not YAML"),
        ("feature: absent.tsv\n", "absent.tsv: cannot be read: No such file"),
    ],
)
def test_a_malformed_yaml_is_named(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "train.yaml"
    path.write_text(content)
    with pytest.raises(InputError, match=message):
        open_reader("oscar-captioning", [path])


def test_files_of_a_layout_are_known_by_themselves(tmp_path: Path) -> None:
    folder = write_captioning(tmp_path / "captioning", IMAGES)
    (folder / "other.yaml").write_text("{")
    assert fitting([folder / "train.yaml"]) == ["oscar-captioning"]
    for name in ("other.yaml", "train.feature.tsv", "absent.yaml"):
        assert fitting([folder / name]) == []
    folder = write_scene_graph(tmp_path / "predictions", IMAGES)
    for name in ("predictions.tsv", "test.hw.tsv"):
        assert fitting([folder / name]) == ["scene-graph"]
    write_cells(folder / "predictions.tsv", [("a", {"image_h": 1, "image_w": 1, "objects": []})])
    assert fitting([folder]) == []  # VinVL's


def test_a_width_is_what_most_lines_have(tmp_path: Path) -> None:
    folder = write_captioning(tmp_path, IMAGES)
    narrow = {"num_boxes": 1, "features": encode(np.ones((1, 8), "<f4"))}
    cells = [("0", narrow)]
    for image in IMAGES:
        found = {"num_boxes": len(image.features), "features": encode(rows(image))}
        cells.append((image.image_id, found))
    write_cells(folder / "train.feature.tsv", cells)
    labels = [(image.image_id, objects(image)) for image in IMAGES]
    write_cells(folder / "train.label.tsv", [("0", []), *labels])
    reader = open_reader("oscar-captioning", [folder])
    with pytest.raises(InputError, match=r"line 1: features: expected 1 rows of 11 numbers"):
        reader[0]
    same(reader[1], IMAGES[0])


def test_half_precision_is_told_by_the_published_width(tmp_path: Path) -> None:
    vector = np.linspace(-1, 1, 2048).astype("<f2")
    found = {"class": "dog", "conf": 1.0, "rect": [0, 0, 64, 64]}
    for dtype in ("<f2", "<f4"):
        cell = {"objects": [found | {"feature": encode(vector, dtype)}]}
        write_cells(tmp_path / "predictions.tsv", [("a", cell)])
        write_sizes(tmp_path / "hw.tsv", IMAGES)
        np.testing.assert_array_equal(open_reader("scene-graph", [tmp_path])[0].features[0], vector)


def test_sizes_are_found_or_named(tmp_path: Path) -> None:
    folder = write_scene_graph(tmp_path / "in", IMAGES)
    (folder / "test.hw.tsv").unlink()
    with pytest.raises(InputError, match=r"expected one \.hw\.tsv .* there is none; name it with"):
        open_reader("scene-graph", [folder])
    one = write_sizes(tmp_path / "one.hw.tsv", IMAGES[:1])
    two = write_sizes(tmp_path / "two.hw.tsv", IMAGES[1:])
    reader = open_reader("scene-graph", [folder, one, two])
    for row, image in enumerate(IMAGES):
        same(reader[row], image)
    with pytest.raises(InputError, match=r"one\.hw\.tsv: size: missing for image 'b'"):
        open_reader("scene-graph", [folder, one])[1]
    with pytest.raises(InputError, match="holds sizes only"):
        open_reader("scene-graph", [one])
    write_sizes(folder / "a.hw.tsv", IMAGES)
    write_sizes(folder / "b.hw.tsv", IMAGES)
    with pytest.raises(InputError, match=r"there are a\.hw\.tsv, b\.hw\.tsv"):
        open_reader("scene-graph", [folder])


def changed(**fields: Any) -> dict[str, Any]:
    """A good line, with fields of its first object changed or, where None, taken away."""
    image = next(image for image in IMAGES if len(image.features) > 1)
    found = objects(image)
    for entry, vector in zip(found, image.features.astype("<f4"), strict=True):
        entry["feature"] = encode(vector)
    first = {name: value for name, value in (found[0] | fields).items() if value is not None}
    return {"objects": [first, *found[1:]]}


def scored(attributes: list[str], scores: list[float] | None) -> dict[str, Any]:
    return changed(attributes=attributes, attr_scores=scores)


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ({"objects": []}, "objects: empty"),
        (changed(feature=None), "objects.0.feature: Field required"),
        (changed(rect=[0, 0, 700, 448]), "objects.rect, row 1: expected x1, y1, x2, y2 in pixels"),
        (changed(feature="AA"), "objects.0.feature: not base64"),
        (changed(feature="AAAAAA=="), "objects.0.feature: expected 5 numbers, found 1"),
        (scored(["red"], [0.5, 0.4]), "attr_scores: expected 1, one for each"),
        (changed(feature=encode(np.zeros(5))), "features, row 1: all its numbers are 0"),
    ],
)
def test_a_malformed_line_of_predictions_is_named(tmp_path: Path, cell: Any, message: str) -> None:
    path = write_scene_graph(tmp_path, IMAGES) / "predictions.tsv"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text(f"{lines[0]}b\t{json.dumps(cell)}\n{lines[2]}")
    reader = open_reader("scene-graph", [tmp_path])
    with pytest.raises(InputError) as raised:
        reader[1]
    assert str(raised.value).startswith(f"{path}, line 2: ")
    assert message in str(raised.value)
    same(reader[2], IMAGES[2])


@pytest.mark.parametrize(
    ("scores", "limit", "words"),
    [
        # The predictor takes 16 attributes after it has set those below its threshold to 0.
        ([0.02, 0.5, 0.01] + [0.0] * 13, RegionLimit(), "a1 a0"),
        ([0.02, 0.5, 0.01] + [0.0] * 13, RegionLimit(attributes=0.1), "a1"),
        ([0.02, 0.5, 0.01] + [0.0] * 13, RegionLimit(attributes=0), "a1 a0 a2"),
        (None, RegionLimit(attributes=0.5), " ".join(f"a{n}" for n in range(16))),
    ],
)
def test_attributes_that_the_detector_zeroed_are_left_out(
    tmp_path: Path, scores: list[float] | None, limit: RegionLimit, words: str
) -> None:
    folder = write_scene_graph(tmp_path, IMAGES)
    write_cells(folder / "predictions.tsv", [("a", scored([f"a{n}" for n in range(16)], scores))])
    reader = open_reader("scene-graph", [folder], limit=limit)
    assert reader[0].attributes[0] == words
    assert reader.source.extra == limit.extra
