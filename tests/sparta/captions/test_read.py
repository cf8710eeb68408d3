import json
import re
from pathlib import Path
from typing import Any

import pytest

from sparta.captions.read import CaptionedPhoto, read_captions
from sparta.errors import InputError

GOOD = {"image": "beach/a.jpg", "split": "train", "captions": ["A dog.", "Sea and sky."]}


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


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{not json", "not a JSON object"),
        ('\n{"image": "b.jpg", "captions": ["x"]}', "not a JSON object"),  # an empty line between
        ("[1, 2]", "the line: "),
        ({**GOOD, "image": ""}, "image: String should have at least 1 character"),
        ({**GOOD, "captions": "A dog."}, "captions: Input should be a valid list"),
        (GOOD, "image 'beach/a.jpg' appears twice"),
    ],
)
def test_errors_name_file_line_and_field(tmp_path: Path, line: Any, message: str) -> None:
    path = write(tmp_path, GOOD, line)
    with pytest.raises(InputError, match="^" + re.escape(f"{path}, line 2: {message}")):
        read_captions(path)


def test_text_that_is_not_utf8_is_named_by_its_line(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD)
    with path.open("ab") as file:
        file.write('{"image": "ü.jpg", "captions": ["x"]}'.encode("latin-1"))
    with pytest.raises(InputError, match=re.escape(f"{path}, line 2: not UTF-8")):
        read_captions(path)


def test_a_split_nobody_has_is_named(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD)
    with pytest.raises(InputError, match=r"no photo has split 'dev'; the file has \['train'\]"):
        read_captions(path, "dev")
    with pytest.raises(FileNotFoundError):
        read_captions(tmp_path / "absent.jsonl")


def test_the_image_may_be_called_id(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD, {"id": "b.jpg", "captions": ["x"]})
    assert [photo.image_id for photo in read_captions(path)] == ["beach/a.jpg", "b.jpg"]


SENTENCES = [{"raw": "A dog."}] * 5
KARPATHY = {"images": [{"filename": "a.jpg", "split": "train", "sentences": SENTENCES}]}


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


# Around a caption, and in place of one: blanks, also those that no keyboard has, and what shows
# nothing.
AROUND = ["\r", " ", "\t", "\u00a0", "\u3000", "\u200b", "\ufeff", "\u2060", "\u00ad", "\u200e"]
NOTHING = ["", " ", "\u00a0\u200b", "\u2800", "\u3164", "\ufeff\u200d", "\ufe0f", "\u0085"]


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
