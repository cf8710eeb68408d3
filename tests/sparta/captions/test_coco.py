import json
import re
from pathlib import Path
from typing import Any

import pytest

from sparta.captions.coco import read_coco_captions
from sparta.captions.read import CaptionedPhoto, read_captions
from sparta.errors import InputError

IMAGES = [
    {"id": 57870, "file_name": "COCO_57870.jpg", "height": 480, "width": 640},
    {"id": 9, "file_name": "COCO_9.jpg", "height": 480, "width": 640},
]
# The captions of the two take turns, and the first has one more than five.
ANNOTATIONS = [
    {"id": 100 + number, "image_id": (57870, 9)[number % 2], "caption": f"caption {number}"}
    for number in range(11)
]


def content(images: list[Any] = IMAGES, annotations: list[Any] = ANNOTATIONS) -> dict[str, Any]:
    return {"info": {}, "licenses": [], "images": images, "annotations": annotations}


def write(folder: Path, name: str, **parts: Any) -> Path:
    path = folder / name
    path.write_text(json.dumps(content(**parts)))
    return path


def photos(split: str, *ids: str) -> list[CaptionedPhoto]:
    even = tuple(f"caption {number}" for number in range(0, 10, 2))
    odd = tuple(f"caption {number}" for number in range(1, 10, 2))
    return [CaptionedPhoto(ids[0], split, even), CaptionedPhoto(ids[1], split, odd)]


@pytest.mark.parametrize(
    ("name", "split"),
    [("captions_val2014.json", "val"), ("captions_train2017.json", "train"), ("x.json", "train")],
)
def test_the_name_of_the_file_tells_the_split(tmp_path: Path, name: str, split: str) -> None:
    path = write(tmp_path, name)
    assert read_captions(path, split) == photos(split, "COCO_57870.jpg", "COCO_9.jpg")
    with pytest.raises(InputError, match=f"no photo has split 'test'; the file has .'{split}'"):
        read_captions(path, "test")


def test_a_split_and_ids_may_be_given() -> None:
    found = read_coco_captions(content(), Path("captions_val2014.json"), "dev", image_key="cocoid")
    assert found == photos("dev", "57870", "9")


def test_another_number_of_captions_may_be_stated(tmp_path: Path) -> None:
    path = write(tmp_path, "captions_val2014.json")
    two = read_captions(path, captions_per_photo=2)
    assert [photo.captions for photo in two] == [
        ("caption 0", "caption 2"),
        ("caption 1", "caption 3"),
    ]
    with pytest.raises(InputError, match=r"images\.1 \(COCO_9\.jpg\): captions: expected 6, found"):
        read_captions(path, captions_per_photo=6)


FIRST = ANNOTATIONS[0]
BLANK = [{**annotation, "caption": " "} for annotation in ANNOTATIONS]


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"annotations": []}, "images.0 (COCO_57870.jpg): captions: expected 5, found 0"),
        ({"annotations": BLANK}, "images.0 (COCO_57870.jpg): captions: one of them is blank"),
        (
            {"annotations": [{**FIRST, "image_id": 3}]},
            "annotations.0: image_id: no image has id 3",
        ),
        ({"annotations": [FIRST, FIRST]}, "annotations.1: id: 100 appears twice"),
        ({"annotations": [{"id": 1}]}, "annotations.0.image_id: Field required"),
        ({"annotations": [{**FIRST, "caption": None}]}, "annotations.0.caption: Input should be"),
        ({"images": [*IMAGES, IMAGES[0]]}, "images.2: id: 57870 appears twice"),
        (
            {"images": [IMAGES[0], {"id": 9, "file_name": "COCO_57870.jpg"}]},
            "images.1 (COCO_57870.jpg): image 'COCO_57870.jpg' appears twice",
        ),
        ({"images": [{"id": "9", "file_name": "x"}]}, "images.0.id: Input should be a valid int"),
    ],
)
def test_what_is_odd_is_named(tmp_path: Path, parts: dict[str, Any], message: str) -> None:
    path = write(tmp_path, "captions_val2014.json", **parts)
    with pytest.raises(InputError, match="^" + re.escape(f"{path}: {message}")):
        read_captions(path)


def test_captions_that_are_left_out_are_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write(tmp_path, "captions_val2014.json")
    read_captions(path)
    assert caplog.messages == [
        f"{path}: captions after a photo's first 5 are left out: 1 of 1 photos"
    ]
