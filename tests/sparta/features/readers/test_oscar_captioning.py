import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sparta.errors import InputError
from sparta.features.readers.oscar_captioning import OscarCaptioningReader, fits
from sparta.features.readers.parsing.region_limit import RegionLimit
from tests.sparta.features.readers.samples import (
    encode,
    objects,
    random_images,
    rows,
    same,
    write_captioning,
    write_cells,
)

IMAGES = random_images("abc")


def test_labels_of_another_detector_are_told_by_their_boxes(tmp_path: Path) -> None:
    folder = write_captioning(tmp_path, IMAGES)
    image = max(IMAGES, key=lambda image: len(image.features))
    whole = {"class": "street", "rect": [0, 0, image.width, image.height]}
    write_cells(folder / "train.label.tsv", [(each.image_id, [whole]) for each in IMAGES])
    reader = OscarCaptioningReader([folder])
    found = reader[reader.ids.index(image.image_id)]
    assert len(found.labels) > 1
    assert found.labels[-1] == "street"  # the last region is the whole photo
    assert not any(found.labels[:-1])


def test_labels_and_sizes_may_be_absent(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = write_captioning(tmp_path, IMAGES)
    (folder / "train.yaml").write_text("feature: train.feature.tsv\nhw: null\n")
    with caplog.at_level(logging.WARNING):
        reader = OscarCaptioningReader([folder])
    assert "train.yaml names no labels" in caplog.text
    assert not any(reader[0].labels)
    assert (reader[0].width, reader[0].height) == (0, 0)
    with pytest.raises(InputError, match=r"feature\.tsv, line 1: confidence: missing"):
        OscarCaptioningReader([folder], limit=RegionLimit(1, "confident"))[0]


@pytest.mark.parametrize(
    ("part", "cell", "message"),
    [
        ("feature", {"num_boxes": 2}, "features: Field required"),
        ("feature", {"num_boxes": 0, "features": ""}, "num_boxes: Input should be greater"),
        ("feature", {"num_boxes": 1, "features": "AAA"}, "features: not base64"),
        ("feature", {"num_boxes": 1, "features": "ä"}, "features: not base64 (it is not ASCII)"),
        ("feature", {"num_boxes": 1, "features": "AAAA"}, "features: expected 1 rows of 11 num"),
        ("label", [{"conf": 1}], "0.class: Field required"),
        ("label", [{"class": "", "rect": [0, 0, 999, 9]}], "objects.rect, row 1: expected x1"),
        ("hw", [], "List should have at least 1 item"),
        ("hw", [{"width": 3}], "0.height: Field required"),
        ("hw", {"width": 3, "height": 0}, "height: Input should be greater than 0"),
        ("hw", 640, "1: Field required"),
    ],
)
def test_a_malformed_line_is_named(tmp_path: Path, part: str, cell: Any, message: str) -> None:
    folder = write_captioning(tmp_path, IMAGES)
    path = folder / f"train.{part}.tsv"
    lines = path.read_text().splitlines(keepends=True)
    write_cells(path, [("b", cell)])
    path.write_text(lines[0] + path.read_text() + lines[2])
    reader = OscarCaptioningReader([folder])
    with pytest.raises(InputError) as raised:
        reader[1]
    assert str(raised.value).startswith(f"{path}, line 2: ")
    assert message in str(raised.value)
    same(reader[2], IMAGES[2])


@pytest.mark.parametrize("line", ['b\t{"width": 640, "height": 448}\n', "b\t448 640\n"])
def test_sizes_are_written_in_several_ways(tmp_path: Path, line: str) -> None:
    folder = write_captioning(tmp_path, IMAGES)
    (folder / "train.hw.tsv").write_text(line)
    reader = OscarCaptioningReader([folder])
    assert (reader[1].width, reader[1].height) == (640, 448)
    with pytest.raises(InputError, match=r"train\.hw\.tsv: size: missing for image 'a'"):
        reader[0]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("label: train.label.tsv\n", "feature: it is missing"),
        ("feature: [", "not YAML"),
        ("feature: 2001-99-99", "not YAML"),
        ("[" * 400, "not YAML"),
        ("- feature\n", "expected names of files"),
        ("feature: absent.tsv\n", "absent.tsv: cannot be read: No such file"),
    ],
)
def test_a_malformed_yaml_is_named(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "train.yaml"
    path.write_text(content)
    with pytest.raises(InputError, match=message):
        OscarCaptioningReader([path])


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no YAML file that names features"):
        OscarCaptioningReader([tmp_path])
    with pytest.raises(InputError, match=r"a\.yaml: cannot be read: No such file"):
        OscarCaptioningReader([tmp_path / "a.yaml"])


def test_knows_its_files(tmp_path: Path) -> None:
    assert not fits(tmp_path)
    write_captioning(tmp_path, IMAGES)
    (tmp_path / "other.yaml").write_text("{")
    assert fits(tmp_path)
    assert fits(tmp_path / "train.yaml")
    assert not fits(tmp_path / "other.yaml")
    assert not fits(tmp_path / "train.feature.tsv")
    assert not fits(tmp_path / "absent.yaml")


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
    reader = OscarCaptioningReader([folder])
    with pytest.raises(InputError, match=r"line 1: features: expected 1 rows of 11 numbers"):
        reader[0]
    same(reader[1], IMAGES[0])
