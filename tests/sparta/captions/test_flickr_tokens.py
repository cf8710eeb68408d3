import re
from pathlib import Path

import pytest

from sparta.captions.read import CaptionedPhoto, read_captions
from sparta.errors import InputError


def write(folder: Path, *lines: str, name: str = "Flickr8k.token.txt") -> Path:
    path = folder / name
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="")
    return path


@pytest.mark.parametrize("name", ["Flickr8k.token.txt", "results_20130124.token"])
def test_all_captions_of_a_photo_are_read(tmp_path: Path, name: str) -> None:
    lines = [f"{image}.jpg#{number}\tA dog # {number} ." for image in "ba" for number in range(6)]
    photos = [
        CaptionedPhoto(f"{image}.jpg", "train", tuple(f"A dog # {n} ." for n in range(6)))
        for image in "ba"
    ]
    assert read_captions(write(tmp_path, *lines, name=name)) == photos


def test_marks_line_ends_and_empty_last_lines_are_left_out(tmp_path: Path) -> None:
    path = write(tmp_path, "\ufeff1.jpg#0\tA café .\r", "1.jpg#1\tA dog .\r", "\r", "")
    assert read_captions(path) == [CaptionedPhoto("1.jpg", "train", ("A café .", "A dog ."))]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("a.jpg\tA dog .", "expected image#number, a tab and a caption"),
        ("a.jpg#0 A dog .", "expected image#number, a tab and a caption"),
        ("a.jpg#0\t ", "captions: one of them is blank"),
        (" #0\tA dog .", "image: it is blank"),
        ("b.jpg#0\tA cat .", "caption 0 of b.jpg appears twice"),
    ],
)
def test_an_odd_line_is_named(tmp_path: Path, line: str, message: str) -> None:
    path = write(tmp_path, "b.jpg#0\tA dog .", line, "c.jpg#0\tA cat .")
    with pytest.raises(InputError, match="^" + re.escape(f"{path}, line 2: {message}")):
        read_captions(path)
