"""Texts of captions, `captions.jsonl`, and photos among images whose ids are written otherwise."""

import json
import re
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from sparta.captions.read import CaptionedPhoto, read_captions
from sparta.captions.record import as_stored, stored_ids
from sparta.errors import InputError

GOOD = {"image": "beach/a.jpg", "split": "train", "captions": ["A dog.", "Sea and sky."]}
SENTENCES = [{"raw": "A dog."}] * 5
KARPATHY = {"images": [{"filename": "a.jpg", "split": "train", "sentences": SENTENCES}]}
# Around a caption, and in place of one: blanks, also those that no keyboard has, and what shows
# nothing.
AROUND = ["\r", " ", "\t", "\u00a0", "\u3000", "\u200b", "\ufeff", "\u2060", "\u00ad", "\u200e"]
NOTHING = ["", " ", "\u00a0\u200b", "\u2800", "\u3164", "\ufeff\u200d", "\ufe0f", "\u0085"]


def write(folder: Path, *lines: Any) -> Path:
    path = folder / "captions.jsonl"
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("\n".join(texts) + "\n", encoding="utf-8")
    return path


def test_reads_photos_of_a_split_in_file_order(tmp_path: Path) -> None:
    val = {"image": "ü.jpg", "split": "val", "captions": ["Ein Hund \u2028 am Meer"], "more": 1}
    path = write(tmp_path, GOOD, val, {"image": "0.jpg", "captions": ["x"]})
    first = CaptionedPhoto("beach/a.jpg", "train", ("A dog.", "Sea and sky."))
    second = CaptionedPhoto("ü.jpg", "val", ("Ein Hund \u2028 am Meer",))
    third = CaptionedPhoto("0.jpg", "train", ("x",))  # "train" when nothing is said
    assert read_captions(path) == [first, second, third]
    assert read_captions(path, "train") == [first, third]
    assert read_captions(path, "val") == [second]


def test_a_split_nobody_has_is_named(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD)
    with pytest.raises(InputError, match=r"no photo has split 'dev'; the file has \['train'\]"):
        read_captions(path, "dev")
    with pytest.raises(FileNotFoundError):
        read_captions(tmp_path / "absent.jsonl")


@pytest.mark.parametrize(
    ("files", "ids"),
    [
        ({"captions.jsonl": json.dumps(GOOD)}, ["beach/a.jpg"]),
        ({"captions.txt": json.dumps(GOOD)}, ["beach/a.jpg"]),
        ({"dataset.json": json.dumps(KARPATHY)}, ["a.jpg"]),
        ({"Flickr8k.token.txt": "1.jpg#0\tA café .\r\n1.jpg#1\tA dog ."}, ["1.jpg"]),
        ({"dev_caps.txt": "a\n" * 10, "dev_ids.txt": "3\n2\n"}, ["3", "2"]),
    ],
    ids=["lines", "lines named as text", "Karpathy", "Flickr", "precomp"],
)
def test_a_byte_order_mark_and_empty_last_lines_are_left_out(
    tmp_path: Path, files: dict[str, str], ids: list[str]
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + text.encode() + b"\r\n\r\n\n")
    photos = read_captions(tmp_path / name if len(files) == 1 else tmp_path)
    assert [photo.image_id for photo in photos] == ids
    texts = [text for photo in photos for text in photo.captions]
    assert not any("\ufeff" in text or text != text.strip() for text in texts)


def test_other_formats_are_answered_with_the_known_ones(tmp_path: Path) -> None:
    path = tmp_path / "captions.tsv"
    path.write_text("title\tfilepath\nA dog\ta.jpg\n")
    named = r"known are captions\.jsonl .*COCO.*Karpathy.*Flickr30k.*Kaggle.*_caps\.txt.*HGR"
    with pytest.raises(InputError, match=r"'title.*filepath' is of no known format; " + named):
        read_captions(path)
    with pytest.raises(InputError, match=named):
        read_captions(tmp_path)
    (tmp_path / "a.json").write_text("{}")
    with pytest.raises(InputError, match=r"a\.json: expected images with sentences.*" + named):
        read_captions(tmp_path / "a.json")


@pytest.mark.parametrize("name", ["captions.jsonl", "captions.json"])
def test_deeply_nested_json_is_one_line(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text("[" * 100_000)
    with pytest.raises(InputError, match=r"captions\.json") as error:
        read_captions(path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("field", ["image", "split", "captions"])
def test_half_a_surrogate_pair_is_refused(tmp_path: Path, field: str) -> None:
    line = GOOD | {field: ["A \ud83d dog."] if field == "captions" else "a \ud83d"}
    path = write(tmp_path, line)
    with pytest.raises(InputError, match=r"line 1: (half of a surrogate pair|image: .* unicode)"):
        read_captions(path)


@pytest.mark.parametrize("around", AROUND)
def test_blanks_around_captions_are_removed(tmp_path: Path, around: str) -> None:
    text, json_text = f"{around}A dog.{around}", json.dumps(f"{around}A dog.{around}")
    files = {
        "captions.jsonl": f'{{"image": "a.jpg", "captions": [{json_text}]}}\r\n',
        "dataset.json": '{"images": [{"filename": "a.jpg", "split": "train", "sentences": '
        f'[{{"raw": {json_text}}}]}}]}}',
        "captions_train2014.json": '{"images": [{"id": 1, "file_name": "a.jpg"}], "annotations": '
        f'[{{"image_id": 1, "caption": {json_text}}}]}}',
        "Flickr8k.token.txt": f"a.jpg#0\t{text}\r\n",
        "captions.txt": f"image,caption\r\na.jpg,{text}\r\n",
        "results.csv": f"image_name| comment_number| comment\r\na.jpg| 0| {text}\r\n",
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content.encode())
        assert read_captions(tmp_path / name) == [CaptionedPhoto("a.jpg", "train", ("A dog.",))]
    (tmp_path / "train_caps.txt").write_bytes(f"{text}\r\n".encode())
    (tmp_path / "train_ids.txt").write_bytes(b"\xef\xbb\xbfa.jpg\r\n")
    assert read_captions(tmp_path) == [CaptionedPhoto("a.jpg", "train", ("A dog.",))]


@pytest.mark.parametrize("nothing", NOTHING)
def test_blank_captions(tmp_path: Path, nothing: str, caplog: pytest.LogCaptureFixture) -> None:
    other = {"image": "b.jpg", "captions": [nothing]}
    path = write(tmp_path, {**GOOD, "captions": ["❤\ufe0f", nothing, "犬"]}, other)
    assert read_captions(path) == [CaptionedPhoto("beach/a.jpg", "train", ("❤\ufe0f", "犬"))]
    assert caplog.messages == [f"{path}: 1 photos without captions and 2 blank captions left out"]
    with pytest.raises(InputError, match=re.escape(f"{tmp_path / 'none.jsonl'} has no captions")):
        (tmp_path / "none.jsonl").write_text(json.dumps(other), encoding="utf-8")
        read_captions(tmp_path / "none.jsonl")


# ---- stored under other ids ----------------------------------------------------------------------

COCO = ["{number}", "{number}.jpg", "{number:012}", "{number:012}.jpg", "{number:012}.png"]
COCO += ["val2017/{number:012}.jpg", "COCO_val2014_{number:012}", "COCO_val2014_{number:012}.jpg"]
COCO += ["val2014/COCO_val2014_{number:012}.jpg", "images\\{number:012}.JPG"]
NUMBERS = (391895, 42, 581929)


@pytest.mark.parametrize(("captions", "store"), [*product(COCO, COCO)])
def test_every_form_of_cocos_ids_is_found_in_every_other(
    captions: str, store: str, caplog: pytest.LogCaptureFixture, request: pytest.FixtureRequest
) -> None:
    wanted = [captions.format(number=number) for number in NUMBERS]
    stored = [store.format(number=number) for number in reversed((7, *NUMBERS))]
    found = stored_ids([*wanted, captions.format(number=1)], stored, request.node.name)
    assert found == dict(zip(wanted, stored[::-1][1:], strict=True))
    told = [f"{request.node.name}: captions and images are matched by "] * (captions != store)
    assert [message[: len(told[0])] for message in caplog.messages] == told


@pytest.mark.parametrize(
    ("captions", "stored", "form"),
    [
        ("beach/a.jpg", "beach/a.png", "path without suffix"),
        ("./beach/a.jpg", "beach/a.jpg", "path without suffix"),
        ("beach/a.jpg", "a.jpg", "file name"),
        ("1000268201_693b08cb0e", "flickr8k/1000268201_693b08cb0e.jpg", "file name without suffix"),
        ("COCO_test2015_000000000001.jpg", "1", "number"),
    ],
)
def test_the_surest_form_that_finds_a_photo_is_told_once(
    captions: str, stored: str, form: str, caplog: pytest.LogCaptureFixture
) -> None:
    photo = CaptionedPhoto(captions, "train", ("a dog",))
    where = f"store of {captions} and {stored}"
    for _ in range(2):
        (found,) = as_stored([photo], {stored}, where)
        assert (found.image_id, found.captions) == (stored, ("a dog",))
    assert caplog.messages == [f"{where}: captions and images are matched by {form}"]


def test_ids_as_they_are_come_first(caplog: pytest.LogCaptureFixture) -> None:
    """A photo that is not stored is not taken for another one of the same file name."""
    stored = ["391895.jpg", "000000391895.jpg", "party/1.jpg"]
    assert stored_ids(["391895.jpg", "beach/1.jpg"], stored, "x") == {"391895.jpg": "391895.jpg"}
    assert caplog.messages == []
    assert stored_ids([], stored, "x") == {}


@pytest.mark.parametrize(
    ("captions", "stored"),
    [
        (["COCO_val2014_000000391895.jpg"], ["391895.jpg", "000000391895.jpg"]),
        (["a"], ["a.jpg", "a.png"]),
        (["beach/1.jpg", "party/1.jpg"], ["1.jpg"]),
    ],
)
def test_an_ambiguous_form_is_refused(captions: list[str], stored: list[str]) -> None:
    with pytest.raises(InputError, match="store: it is unclear which photo is which: by ") as error:
        stored_ids(captions, stored, "store")
    assert all(repr(image_id) in str(error.value) for image_id in [*captions, *stored])


def test_other_photos_are_not_taken_for_one_another() -> None:
    """Digits at the end of a name are no number of COCO's."""
    assert stored_ids(["beach1.jpg", "a"], ["party1.jpg", "ab"], "store") == {}
    assert stored_ids(["a"], [], "store") == {}
