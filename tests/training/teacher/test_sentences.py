from pathlib import Path

import pytest

from sparta.errors import InputError
from training.teacher.similarities import pool_sentences, read_sentences


def test_lines_are_sentences(tmp_path: Path) -> None:
    path = tmp_path / "sentences.txt"
    path.write_bytes("a dog \r\n\n  \nein Hündchen\na dog".encode())
    assert read_sentences(path) == ["a dog", "ein Hündchen", "a dog"]
    path.write_bytes(b"\xef\xbb\xbfa dog\n")  # a byte order mark
    assert read_sentences(path) == ["a dog"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, r"lines\.txt cannot be read \(No such file or directory\)"),
        (b" \n\n", r"lines\.txt is empty: give one sentence a line"),
        (b"a\xff", r"lines\.txt is not UTF-8 text \(invalid start byte at byte 1\)"),
    ],
)
def test_a_file_without_sentences_is_refused(
    tmp_path: Path, content: bytes | None, message: str
) -> None:
    path = tmp_path / "lines.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=rf"teacher\.sentences: .*{message}"):
        read_sentences(path)


def test_equal_sentences_share_a_number() -> None:
    pool = pool_sentences([("x", "y"), (), ("y", "y")], ["z", "x", "z"])
    assert pool.texts == ["x", "y", "z"]
    assert pool.captions == [[0, 1], [], [1, 1]]
