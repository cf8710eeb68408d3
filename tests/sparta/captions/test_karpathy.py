import json
import re
from pathlib import Path
from typing import Any

import pytest

from sparta.captions.read import CaptionedPhoto, read_captions
from sparta.errors import InputError


def image(name: str, split: str, captions: int = 5, **more: Any) -> dict[str, Any]:
    sentences = [
        {"raw": f"{name} {number}", "tokens": [name, str(number)], "imgid": 0, "sentid": number}
        for number in range(captions)
    ]
    return {"filename": name, "imgid": 0, "split": split, "sentences": sentences} | more


def coco(name: str, split: str, folder: str, number: int, captions: int = 5) -> dict[str, Any]:
    return image(name, split, captions, filepath=folder, cocoid=number)


def write(folder: Path, *images: Any, name: str = "dataset_coco.json") -> Path:
    path = folder / name
    path.write_text(json.dumps({"images": images, "dataset": "coco"}))
    return path


def expected(image_id: str, split: str, name: str) -> CaptionedPhoto:
    return CaptionedPhoto(image_id, split, tuple(f"{name} {number}" for number in range(5)))


def test_restval_joins_train_and_the_first_five_captions_are_taken(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        coco("a.jpg", "train", "train2014", 9, captions=7),
        coco("b.jpg", "restval", "val2014", 8),
        coco("c.jpg", "val", "val2014", 7),
        coco("d.jpg", "test", "val2014", 6),
    )
    train = [
        expected("train2014/a.jpg", "train", "a.jpg"),
        expected("val2014/b.jpg", "train", "b.jpg"),
    ]
    assert read_captions(path, "train") == train
    assert read_captions(path, "val") == [expected("val2014/c.jpg", "val", "c.jpg")]
    assert [photo.split for photo in read_captions(path)] == ["train", "train", "val", "test"]
    apart = read_captions(path, ["train", "restval"])
    assert [photo.split for photo in apart] == ["train", "restval"]


def test_flickr_has_neither_folders_nor_coco_ids(tmp_path: Path) -> None:
    path = write(tmp_path, image("1.jpg", "train"), name="dataset_flickr30k.json")
    assert read_captions(path) == [expected("1.jpg", "train", "1.jpg")]
    with pytest.raises(InputError, match=re.escape(f"{path}: images.0 (1.jpg): cocoid: missing")):
        read_captions(path, image_key="cocoid")


def test_ids_may_be_those_of_coco(tmp_path: Path) -> None:
    path = write(tmp_path, coco("c.jpg", "val", "val2014", 391895))
    assert read_captions(path, image_key="cocoid") == [expected("391895", "val", "c.jpg")]


def test_another_number_of_captions_may_be_stated(tmp_path: Path) -> None:
    path = write(tmp_path, image("a.jpg", "train", captions=3))
    assert read_captions(path, captions_per_photo=2)[0].captions == ("a.jpg 0", "a.jpg 1")
    with pytest.raises(
        InputError, match=r"images\.0 \(a\.jpg\): captions: expected 5, found 3; sparta"
    ):
        read_captions(path)


A = image("a.jpg", "train")


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (A, "images.1 (a.jpg): image 'a.jpg' appears twice"),
        ({**A, "filename": ""}, "images.1.filename: String should have at least 1 character"),
        ({**A, "split": None}, "images.1.split: Input should be a valid string"),
        ({"filename": "b.jpg", "split": "val"}, "images.1.sentences: Field required"),
        ({**A, "sentences": [{"tokens": []}]}, "images.1.sentences.0.raw: Field required"),
        (
            {**image("b.jpg", "val"), "sentences": [{"raw": " \n"}] * 5},
            "images.1 (b.jpg): captions: one of them is blank",
        ),
        ("b.jpg", "images.1: Input should be a valid dictionary"),
    ],
)
def test_an_odd_image_is_named(tmp_path: Path, second: Any, message: str) -> None:
    path = write(tmp_path, A, second)
    with pytest.raises(InputError, match="^" + re.escape(f"{path}: {message}")):
        read_captions(path)


def test_other_json_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    with pytest.raises(InputError, match=r"x\.json: cannot be read: No such file"):
        read_captions(path)
    for text in ("[]", '{"annotation": []}', '"images"'):
        path.write_text(text)
        with pytest.raises(InputError, match=r"x\.json: expected images with sentences"):
            read_captions(path)
    path.write_text('{"images": [],\n}')
    with pytest.raises(InputError, match=r"x\.json: not JSON, or cut: .* line 2"):
        read_captions(path)
    path.write_text('{"images": []}')
    with pytest.raises(InputError, match=r"x\.json: images: List should have at least 1 item"):
        read_captions(path)
    with pytest.raises(InputError, match=r"no photo has split 'dev'; the file has \['train'\]"):
        read_captions(write(tmp_path, A), "dev")


def test_captions_that_are_left_out_are_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    more = [image(f"{count}.jpg", "train", captions=count) for count in (5, 6, 7)]
    path = write(tmp_path, *more)
    read_captions(path)
    assert caplog.messages == [
        f"{path}: captions after a photo's first 5 are left out: 3 of 2 photos"
    ]


def test_restval_is_apart_where_it_is_named(tmp_path: Path) -> None:
    path = write(tmp_path, image("a.jpg", "train"), image("b.jpg", "restval"))
    assert read_captions(path, "restval") == [expected("b.jpg", "restval", "b.jpg")]
    found = read_captions(path, ["train", "restval"])
    assert [(photo.image_id, photo.split) for photo in found] == [
        ("a.jpg", "train"),
        ("b.jpg", "restval"),
    ]


def test_a_byte_order_mark_is_no_part_of_the_json(tmp_path: Path) -> None:
    path = write(tmp_path, A)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert read_captions(path) == [expected("a.jpg", "train", "a.jpg")]
