import os
from pathlib import Path

import pytest

from sparta.errors import InputError
from sparta.features.readers.parsing import memory_limit
from sparta.features.readers.parsing.tsv import lines as line_offsets
from sparta.features.readers.parsing.tsv.lines import TsvFile

NAMES = ("key", "cell")
MARK = b"\xef\xbb\xbf"


def write(path: Path, content: bytes, index: bytes | None = None) -> Path:
    path.write_bytes(content)
    if index is not None:
        path.with_suffix(".lineidx").write_bytes(index)
    return path


@pytest.mark.parametrize("index", [None, b"0\n6\n", MARK + b"0\n6\n12\n", b"3\n6\n12\n13\n"])
@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n\r\n"])
def test_a_mark_at_the_start_and_empty_lines_at_the_end_belong_to_no_line(
    tmp_path: Path, index: bytes | None, end: bytes
) -> None:
    file = TsvFile(write(tmp_path / "a.tsv", MARK + b"a\t\n" + b"bb\tyz" + end, index))
    assert file.keys == ["a", "bb"]
    assert [file.cells(line, NAMES) for line in range(2)] == [[b"a", b""], [b"bb", b"yz"]]


@pytest.mark.parametrize("content", [b"", MARK, b"\n\r\n", MARK + b"\n"])
def test_a_file_without_lines_is_named(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(InputError, match=r"a\.tsv is empty"):
        TsvFile(write(tmp_path / "a.tsv", content))


def test_lines_are_found_whatever_is_read_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [f"{number}\t{'x' * number}" for number in range(30)]
    path = write(tmp_path / "a.tsv", ("\n".join(lines) + "\n" * 9).encode())
    for block in (1, 2, 7, 1 << 20):
        monkeypatch.setattr(line_offsets, "BLOCK", block)
        file = TsvFile(path)
        assert file.keys == [str(number) for number in range(30)]
        assert file.cells(29, NAMES)[1] == b"x" * 29


def test_a_file_cut_while_it_is_read_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", b"a\t" + b"x" * 5000 + b"\nb\t" + b"y" * 5000)
    file = TsvFile(path)
    os.truncate(path, 6000)
    assert file.cells(0, NAMES)[1] == b"x" * 5000
    with pytest.raises(InputError, match=r"a\.tsv, line 2: the file was cut short .* 4,005 bytes"):
        file.cells(1, NAMES)
    path.write_bytes(b"c" * 20000)
    with pytest.raises(InputError, match=r"a\.tsv, line 1: the file has changed while it was rea"):
        file.cells(0, NAMES)
    path.unlink()
    with pytest.raises(InputError, match=r"a\.tsv: cannot be read: No such file"):
        file.cells(0, NAMES)


def test_a_line_too_long_for_an_image_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_limit, "LARGEST", 1000)
    file = TsvFile(write(tmp_path / "a.tsv", b"a\t" + b"x" * 1000 + b"\nb\ty\n"))
    with pytest.raises(InputError, match=r"a\.tsv, line 1: it claims 1,003 bytes, and at most 1,0"):
        file.cells(0, NAMES)
    assert file.cells(1, NAMES) == [b"b", b"y"]
