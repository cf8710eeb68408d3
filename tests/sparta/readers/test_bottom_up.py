"""Bottom-up attention and LXMERT; words of classes and objects, and the regions that are kept."""

import logging
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sparta.errors import InputError
from sparta.features.record import SKIPPED, ImageFeatures
from sparta.readers.base import ImportOptions, RegionLimit
from sparta.readers.bottom_up import CONVERSION
from sparta.readers.labels import (
    Classes,
    Classifier,
    DetectedObject,
    LabelledObjects,
    WordPlacer,
    match,
    overlaps,
)
from sparta.readers.registry import fitting, import_features, open_reader
from tests.needs import missing
from tests.sparta.readers.samples import bottom_up_line as line
from tests.sparta.readers.samples import encode, random_images, seen, write_npz, write_vocabulary

A, B = random_images("ab", regions=3)


def test_lines_as_python_2_and_python_3_end_and_wrap_them(tmp_path: Path) -> None:
    cells = line(B).strip().split("\t")
    wrapped = "\t".join([*cells[:4], f"b'{cells[4]}'", f"b'{cells[5]}'"])
    path = tmp_path / "a.tsv"
    path.write_text(line(A).replace("\n", "\r\n") + wrapped + "\r\n", newline="")
    reader = open_reader("bottom-up", [path])
    for row, image in enumerate((A, B)):
        np.testing.assert_array_equal(reader[row].features, image.features)
        np.testing.assert_allclose(reader[row].boxes, image.boxes)


def test_a_malformed_first_line_does_not_decide_the_dimension(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text(line(B, features=encode(B.features.ravel()[:7])) + line(A))
    reader = open_reader("bottom-up", [path])
    assert reader.source.dimension == 5
    np.testing.assert_array_equal(reader[0].features, A.features)
    with pytest.raises(InputError, match=r"a\.tsv, line 1: features: expected 3 rows of 5"):
        reader[1]
    path.write_text(line(A, w=1) + line(B, w=2))
    with pytest.raises(InputError, match=r"a\.tsv, line 1: boxes, row 1"):
        open_reader("bottom-up", [path])


@pytest.mark.parametrize("scale", [1, 1e-3])
def test_a_whole_file_in_half_precision_is_named(tmp_path: Path, scale: float) -> None:
    """As float32 it would have half the dimension, and other numbers."""
    features = scale * np.random.default_rng(0).normal(size=(3, 512)).clip(0)
    path = tmp_path / "a.tsv"
    path.write_text(line(A, features=encode(features)))
    assert open_reader("bottom-up", [path]).source.dimension == 512
    path.write_text("".join(line(one, features=encode(features, "<f2")) for one in (A, B)))
    with pytest.raises(InputError, match=r"line 1: features: expected float32 .* like float16"):
        open_reader("bottom-up", [path])


class Trap:
    """Fails where it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return pytest.fail, ("a pickle was loaded",)


def test_the_pickle_is_left_alone(tmp_path: Path) -> None:
    image = open_reader("bottom-up-npz", [write_npz(tmp_path, A, info=np.array(Trap()))])[0]
    np.testing.assert_array_equal(image.features, A.features)
    with pytest.raises(InputError, match="objects_id: missing"):
        open_reader("bottom-up-npz", [tmp_path], limit=RegionLimit(1, "confident"))


@pytest.mark.parametrize("attributes", [True, False])
def test_classes_stand_in_the_pickle_until_it_is_converted(
    tmp_path: Path, attributes: bool
) -> None:
    """As published: what is in the dictionary can be had by unpickling alone."""
    info = {name: found for name, found in seen(A).items() if attributes or "attrs" not in name}
    folder = write_npz(tmp_path / "in", A, info={"image_id": "a", "num_boxes": 3, **info})
    vocabulary = write_vocabulary(tmp_path)
    message = r"a\.npz: objects_id: missing\. .* If you trust the files, convert them once"
    with pytest.raises(InputError, match=message) as error:
        open_reader("bottom-up-npz", [folder], vocabulary=vocabulary)
    _, conversion = str(error.value).split("\n\n")
    assert conversion == CONVERSION.replace("FOLDER", str(folder))
    exec(conversion, {})
    assert {*np.load(folder / "a.npz")} == {"x", "bbox", "num_bbox", "image_h", "image_w", *info}
    image = open_reader("bottom-up-npz", [folder], vocabulary=vocabulary)[0]
    assert image.labels == tuple(label or "yolk" for label in A.labels)
    assert image.attributes == (A.attributes if attributes else ("",) * 3)
    np.testing.assert_array_equal(image.features, A.features)


def test_a_damaged_first_file_does_not_decide_the_dimension(tmp_path: Path) -> None:
    folder = write_npz(tmp_path, B)
    (folder / "a.npz").write_bytes(b"PK\3\4cut")
    assert fitting([folder]) == []
    reader = open_reader("bottom-up-npz", [folder])
    with pytest.raises(InputError, match=r"a\.npz is damaged or no \.npz file: File is not a zip"):
        reader[0]
    np.testing.assert_array_equal(reader[1].features, B.features)
    (folder / "b.npz").unlink()
    with pytest.raises(InputError, match=r"a\.npz is damaged"):
        open_reader("bottom-up-npz", [folder])


def test_a_file_whose_name_is_no_text_is_skipped_like_others(tmp_path: Path) -> None:
    folder = write_npz(tmp_path / "in", B)
    try:
        (folder / os.fsdecode(b"a\xff.npz")).write_bytes((folder / "b.npz").read_bytes())
    except OSError:
        pytest.skip("this file system takes UTF-8 alone")
    reader = open_reader("bottom-up-npz", [folder])
    assert import_features(reader, tmp_path / "store", skip_bad=True).ids == ["b"]
    assert r"a\\xff.npz: the file name is not UTF-8" in (tmp_path / "store" / SKIPPED).read_text()


# ---- words of classes, and objects that stand with their regions ---------------------------------


def words(folder: Path, *objects: int) -> tuple[str, ...]:
    """The labels of regions of these classes."""
    classifier = Classifier(ImportOptions("x", vocabulary=folder))
    seen = Classes(np.array(objects), np.ones(len(objects)))
    return classifier.label(image(*[ALL] * len(objects)), seen, "f.tsv, line 3").labels


def test_an_attribute_the_detector_is_not_sure_of_is_none(tmp_path: Path) -> None:
    classifier = Classifier(ImportOptions("x", vocabulary=write_vocabulary(tmp_path)))
    sure = np.array([0.1, 0.11, 0.0])
    found = Classes(np.zeros(3, int), np.ones(3), np.array([1, 1, 0]), sure)
    labelled = classifier.label(image(ALL, ALL, ALL), found, "f")
    assert (labelled.labels, labelled.attributes) == (("yolk",) * 3, ("", "brown", ""))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "objects_vocab.txt is empty"),
        (b"a\n\nb", "objects_vocab.txt, line 2: the word is blank"),
        (b"\xff", "objects_vocab.txt, line 1: not UTF-8"),
        # A byte order mark and an empty last line are no classes.
        (b"\xef\xbb\xbfyolk\r\nbuoy\r\n\r\n", "expected 0 to 1, the lines of"),
    ],
)
def test_an_odd_vocabulary_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    (write_vocabulary(tmp_path) / "objects_vocab.txt").write_bytes(content)
    with pytest.raises(InputError, match=message):
        words(tmp_path, 2)


def test_reads_the_published_vocabularies(shared: Path) -> None:
    folder = shared / "vocab"
    if not folder.is_dir():
        missing(f"vocabularies: {folder} is absent")
    assert words(folder, 1599, 0) == ("buoy", "yolk")
    with pytest.raises(InputError, match=r"f\.tsv, line 3: objects_id, row 1: expected 0 to 1599"):
        words(folder, 1600)


LEFT, RIGHT, ALL = [0.0, 0.0, 0.5, 1.0], [0.5, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 1.0]


def boxes(*rows: list[float]) -> NDArray[np.float32]:
    return np.array(rows, np.float32).reshape(-1, 4)


def image(*rows: list[float]) -> ImageFeatures:
    n = len(rows)
    features = np.arange(1, n + 1, dtype=np.float16)[:, None]
    return ImageFeatures("a", features, boxes(*rows), ("",) * n, ("",) * n, 0, 0)


def sighted(labels: str, *rows: list[float]) -> LabelledObjects:
    words = tuple(labels.split())
    attributes = tuple(f"{word}ish" for word in words)
    confidences = np.linspace(0.1, 0.9, len(words))
    return LabelledObjects(words, attributes, boxes(*rows) if rows else None, confidences)


def slow_overlap(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """By counting the cells of a fine grid that are in both and in either."""
    grid = (np.arange(100) + 0.5) / 100
    x, y = np.meshgrid(grid, grid)
    within = [(x > x1) & (x < x2) & (y > y1) & (y < y2) for x1, y1, x2, y2 in (a, b)]
    either = (within[0] | within[1]).sum()
    return (within[0] & within[1]).sum() / either if either else 0.0


def test_overlap_is_of_the_areas() -> None:
    corners = np.random.default_rng(0).integers(0, 101, (12, 2, 2)) / 100
    found = np.sort(corners, axis=1).reshape(-1, 4)
    wanted = [[slow_overlap(a, b) for b in found[5:]] for a in found[:5]]
    np.testing.assert_allclose(overlaps(found[:5], found[5:]), wanted, atol=1e-9)
    point = boxes([0.5, 0.5, 0.5, 0.5])
    assert overlaps(point, point).tolist() == [[0]]


def test_boxes_that_do_not_agree_go_where_they_overlap_by_more_than_half() -> None:
    regions = boxes(LEFT, RIGHT, ALL)
    assert match(regions, sighted("b a c", RIGHT, LEFT, ALL)).tolist() == [1, 0, 2]
    found = sighted(
        "a b c d", [0.0, 0.0, 0.45, 1.0], [0.0, 0.1, 0.5, 1.0], [0.4, 0.4, 0.6, 0.6], ALL
    )
    assert match(regions, found).tolist() == [0, 0, -1, 2]
    assert match(regions, sighted("half", [0.0, 0.0, 0.25, 1.0])).tolist() == [-1]  # exactly a half
    assert match(regions, LabelledObjects(boxes=boxes())).tolist() == []
    # Those that agree row by row, or have no boxes and are as many, are taken as they stand.
    line = [0.5, 0.2, 0.5, 0.4]  # it has no area, and so overlaps nothing
    twice = boxes(LEFT, LEFT, line)
    assert match(twice, sighted("cat dog hat", LEFT, LEFT, line)).tolist() == [0, 1, 2]
    assert match(regions, sighted("cat dog hat")).tolist() == [0, 1, 2]
    assert match(regions, sighted("cat dog")).tolist() == [-1, -1]


def test_words_of_no_region_stand_with_the_largest(caplog: pytest.LogCaptureFixture) -> None:
    placer = WordPlacer(RegionLimit())
    small = [0.0, 0.0, 0.1, 0.1]
    with caplog.at_level(logging.WARNING):
        placed = placer.place(image(LEFT, ALL), sighted("cat dog hat", small, ALL, LEFT), "x")
        placer.place(image(LEFT, ALL), sighted("cat dog hat"), "x")
    assert placed.labels == ("hat", "cat dog")
    assert placed.attributes == ("hatish", "catish dogish")
    (message,) = caplog.messages
    assert message.startswith("a: 1 of 3 labels belong to no region")
    # The largest of those that models read.
    placed = placer.place(image(*[LEFT] * 50, ALL), sighted("cat dog"), "x")
    assert placed.labels == ("cat dog", *[""] * 50)
    limited = WordPlacer(RegionLimit(1))
    assert limited.place(image(small, ALL), sighted("cat"), "x").labels == ("cat",)


def test_boxes_and_confidences_are_known_for_all_objects_or_not_at_all() -> None:
    full = DetectedObject.model_validate({"class": "a", "rect": [0, 0, 5.0, 5], "conf": 0.5})
    poor = DetectedObject.model_validate({"class": "b"})
    found = LabelledObjects.of([full, full], 10, 20, "x")
    assert found.boxes is not None
    assert found.confidences is not None
    np.testing.assert_allclose(found.boxes, [[0, 0, 0.5, 0.25]] * 2)
    assert found.confidences.tolist() == [0.5, 0.5]
    mixed = LabelledObjects.of([full, poor], 10, 20, "x")
    assert mixed.boxes is None
    assert mixed.confidences is None
    assert LabelledObjects.of([full], 0, 0, "x").boxes is None
    with pytest.raises(InputError, match=r"^x: objects\.rect, row 1: expected .* not within"):
        LabelledObjects.of([full], 4, 4, "x")
