import csv
import re
from pathlib import Path

import pytest

from sparta.captions.kaggle import read_table
from sparta.captions.read import CaptionedPhoto, read_captions
from sparta.errors import InputError

CAPTIONS = {
    "1.jpg": ("Two dogs , one black .", 'A sign reads " Stop "', '"Stop" , it reads .'),
    "2.jpg": ("A café .", 'A " dog', "A dog"),
}
PHOTOS = [CaptionedPhoto(image, "train", texts) for image, texts in CAPTIONS.items()]


def rows() -> list[tuple[str, str, str]]:
    return [
        (image, str(n), text) for image, texts in CAPTIONS.items() for n, text in enumerate(texts)
    ]


def write(folder: Path, *lines: str, name: str = "captions.txt") -> Path:
    path = folder / name
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="")
    return path


def test_tables_that_a_program_for_csv_wrote(tmp_path: Path) -> None:
    for header in (["image", "caption"], ["image_name", "comment_number", "comment"]):
        path = tmp_path / "captions.txt"
        with path.open("w", encoding="utf-8-sig", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(header)
            writer.writerows(row if len(header) == 3 else row[::2] for row in rows())
        assert read_captions(path) == PHOTOS


def test_tables_without_quotation(tmp_path: Path) -> None:
    """Commas after the last separator belong to the caption, and so do quotation marks."""
    lines = [f"{image}, {number}, {text}" for image, number, text in rows()]
    assert read_captions(write(tmp_path, "image_name, comment_number, comment", *lines)) == PHOTOS
    lines = [f"{image},{text}" for image, _, text in rows()]
    assert read_captions(write(tmp_path, "image,caption", *lines)) == PHOTOS


def test_tables_with_pipes(tmp_path: Path) -> None:
    lines = [f"{image}| {number}| {text}" for image, number, text in rows()]
    path = write(tmp_path, "image_name| comment_number| comment", *lines, name="results.csv")
    assert read_captions(path) == PHOTOS


def test_the_published_line_without_its_second_pipe_is_read(tmp_path: Path) -> None:
    lines = ["2199200615.jpg| 3| A dog .", "2199200615.jpg| 4   A dog runs across the grass ."]
    path = write(tmp_path, "image_name| comment_number| comment", *lines, name="results.csv")
    texts = ("A dog .", "A dog runs across the grass .")
    assert read_captions(path) == [CaptionedPhoto("2199200615.jpg", "train", texts)]


@pytest.mark.parametrize(
    ("header", "line", "message"),
    [
        ("image,caption", "1.jpg", "expected image,caption, found '1.jpg'"),
        ("image,caption", "", "expected image,caption, found ''"),
        ("image,caption", '1.jpg,"A dog', "caption: its quotation mark is not closed on this"),
        ("image,caption", "1.jpg, ", "captions: one of them is blank"),
        ("image,caption", ",A dog", "image: it is blank"),
        ("image_name|comment_number|comment", "1.jpg| x| A dog", "expected image_name|comment_nu"),
        ("image_name|comment_number|comment", "1.jpg| A dog", "expected image_name|comment_numb"),
        ("image_name|comment_number|comment", "2.jpg| 0| A", "caption 0 of 2.jpg appears twice"),
    ],
)
def test_an_odd_line_is_named(tmp_path: Path, header: str, line: str, message: str) -> None:
    first = "2.jpg| 0| A dog" if "|" in header else "2.jpg,A dog"
    path = write(tmp_path, header, first, line, "3.jpg,A dog")
    with pytest.raises(InputError, match="^" + re.escape(f"{path}, line 3: {message}")):
        read_captions(path)


def test_a_table_has_names_of_columns(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"captions\.txt, line 1: expected the names of columns"):
        read_table(write(tmp_path, "photo;text", "1.jpg;A dog"))
