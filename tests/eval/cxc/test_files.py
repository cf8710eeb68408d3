"""The published files, as they are and damaged."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from eval.cxc.files import JudgedPair, read_judgements, read_sentences
from sparta.errors import InputError
from tests.eval.cxc.tiny import write_judgements, write_sentences


def test_the_published_validation_split(shared: Path) -> None:
    judged = read_judgements(shared / "cxc", "val")
    parts = {
        "sits": (judged.text_image, {"c2i_original": 25_000, "c2i_intrasim": 19_722}),
        "sts": (judged.text_text, {"c2c_cocaption": 25_000, "c2c_isim": 19_009}),
        "sis": (judged.image_image, {"i2i_csim": 42_767}),
    }
    for pairs, methods in parts.values():
        assert Counter(pair.method for pair in pairs) == methods
    assert judged.text_image[0] == JudgedPair(648388, 431431, 1.8, "c2i_intrasim")
    assert judged.text_text[0] == JudgedPair(190268, 315773, 1.24, "c2c_isim")
    assert judged.image_image[0] == JudgedPair(32001, 432818, 0.5, "i2i_csim")


@pytest.mark.parametrize(
    ("file", "line", "message"),
    [
        ("sits", "a,b,agg_score,sampling_method", "line 1: columns"),
        ("sits", "COCO_val2014:sentid:1,COCO_val2014_000000000020.jpg,4.9", "line 2: 3 columns"),
        ("sits", "sentid:1,COCO_val2014_000000000020.jpg,4.9,x", "line 2: caption: 'sentid:1'"),
        ("sits", "COCO_val2014:sentid:1,dog.jpg,4.9,x", "line 2: image: 'dog.jpg'"),
        ("sts", "COCO_val2014:sentid:1,COCO_val2014:sentid:2,5.1,x", "line 2: agg_score: '5.1'"),
        ("sis", "COCO_val2014_7.jpg,COCO_val2014_8.jpg,nan,x", "line 2: agg_score: 'nan'"),
        ("sis", "COCO_val2014_7.jpg,COCO_val2014_8.jpg,,x", "line 2: agg_score: ''"),
    ],
)
def test_damaged_files(tmp_path: Path, file: str, line: str, message: str) -> None:
    folder = write_judgements(tmp_path / "cxc")
    path = folder / f"{file}_val.csv"
    header = path.read_text().splitlines()[0]
    path.write_text(f"{line}\n" if "line 1" in message else f"{header}\n{line}\n")
    with pytest.raises(InputError) as caught:
        read_judgements(folder, "val")
    assert f"{path}, {message}" in str(caught.value)


def test_byte_order_marks_are_no_part_of_the_header(tmp_path: Path) -> None:
    folder = write_judgements(tmp_path / "cxc")
    judged = read_judgements(folder, "val")
    for path in folder.iterdir():
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert read_judgements(folder, "val") == judged


def test_a_missing_file(tmp_path: Path) -> None:
    folder = write_judgements(tmp_path / "cxc")
    with pytest.raises(InputError, match=r"sits_test\.csv is missing"):
        read_judgements(folder, "test")


def test_sentences_by_number(tmp_path: Path) -> None:
    texts = {number: f"caption {number}" for number in (1, 2, 3, 4, 5, 9)}
    assert read_sentences(write_sentences(tmp_path / "dataset_coco.json", texts)) == texts
    coco = {
        "images": [{"id": 20, "file_name": "a.jpg"}],
        "annotations": [{"id": 1, "image_id": 20, "caption": "caption 1"}],
    }
    (tmp_path / "captions_val2014.json").write_text(json.dumps(coco))
    assert read_sentences(tmp_path / "captions_val2014.json") == {1: "caption 1"}
    odd: list[Any] = [[], [{"id": 20}], [{"sentences": [{}]}]]
    for content in ({"images": images} for images in odd):
        (tmp_path / "odd.json").write_text(json.dumps(content))
        with pytest.raises(InputError, match=r"odd\.json"):
            read_sentences(tmp_path / "odd.json")
