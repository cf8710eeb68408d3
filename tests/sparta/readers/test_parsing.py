"""Arrays, TSVs, boxes and floats in files of other software."""

import io
import os
import struct
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sparta.errors import InputError
from sparta.readers import base, keyed_files
from sparta.readers.base import relative_boxes
from sparta.readers.keyed_files import TsvFile
from sparta.readers.npy import ArrayFile, Arrays, array_names

FIELDS = b"{'descr': '<i8', 'fortran_order': False, 'shape': (), }"
# Headers changed as fuzzing changed them, and what NumPy raises out of its parser of each.
HEADERS = {
    "IndentationError, dedent": FIELDS + b"\n  " + b"\0" * 56 + b"\n \0",
    "IndentationError, indent": FIELDS + b"\n    0\n  0" + b" " * 50 + b"\n",
    "TokenError": b"(" * 100 + b"\n",
    "TypeError": b"{[]: 1}\n",
    "OverflowError, shape": FIELDS.replace(b"()", b"(" + b"9" * 30 + b",)") + b"\n",
    "OverflowError, map": FIELDS.replace(b"()", b"(-9,)") + b"\n",
    "MemoryError": FIELDS.replace(b"()", b"(" + b"9" * 13 + b",)") + b"\n",
    "ValueError of two lines": FIELDS + b" " * 20000 + b"\n",
}


def npy(header: bytes) -> bytes:
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(8)


def claim(shape: tuple[int, ...], entries: int = 8) -> bytes:
    """A header that states a shape of float32, and some bytes of entries."""
    fields = {"descr": "<f4", "fortran_order": False, "shape": shape}
    return npy(repr(fields).encode() + b"\n")[:-8] + bytes(entries)


def test_an_array_cut_while_it_is_read_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.ones((4, 1024, 2)))
    file = ArrayFile(path, (3,), "float")
    path.write_bytes(path.read_bytes()[:-40000])
    assert file[0].all()
    with pytest.raises(InputError, match=r"a\.npy, row 2: the file was cut short .* 7,232 bytes"):
        file[1]
    path.unlink()
    with pytest.raises(InputError, match=r"a\.npy: cannot be read: No such file"):
        file[0]


def test_a_claim_is_checked_before_memory_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    with path.open("wb") as file:  # a file with holes has the size that it states
        file.write(claim((2, 10**9), 0))
        file.truncate(file.tell() + 8 * 10**9)
    with pytest.raises(InputError, match=r"a\.npy, row 1: it claims 4,000,000,000 bytes, and at"):
        ArrayFile(path, (2,), "float")[0]
    with pytest.raises(InputError, match=r"a\.npy, read as a whole: it claims 8,000,000,000"):
        _ = ArrayFile(path, (2,), "float").whole


def test_compressed_zeros_are_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "LARGEST", 1 << 20)
    path = tmp_path / "a.npz"
    np.savez_compressed(path, x=np.zeros((8, 1 << 20), np.float32))
    assert path.stat().st_size < 1 << 16
    tracemalloc.start()
    with pytest.raises(InputError, match=r"a\.npz: x: it claims 33,554,432 bytes, and at most"):
        Arrays(path, ["x"])
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


def open_npy(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    ArrayFile(path, (2,), "float")


def open_npz(path: Path, content: bytes) -> None:
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("x.npy", content)
    assert array_names(path) == {"x"}
    Arrays(path, ["x"])


OBJECTS = io.BytesIO()
np.save(OBJECTS, np.array([[{}]]), allow_pickle=True)
BAD = {name: (npy(header), "") for name, header in HEADERS.items()} | {
    "Python objects": (OBJECTS.getvalue(), "holds Python objects"),
    "another version": (b"\x93NUMPY\x03\x00" + bytes(100), r"version \(3, 0\) of the format"),
    "a claim": (claim((10**9, 2048)), "takes 8,192,000,000,000 bytes"),
}


@pytest.mark.parametrize(("name", "opening"), [("a.npy", open_npy), ("a.npz", open_npz)])
@pytest.mark.parametrize(("content", "message"), BAD.values(), ids=BAD.keys())
def test_a_damaged_or_dangerous_array_is_a_damaged_file(
    tmp_path: Path, name: str, opening: Callable[[Path, bytes], None], content: bytes, message: str
) -> None:
    """Before memory is taken, and without unpickling."""
    with pytest.raises(InputError, match=rf"{name}.*{message}") as error:
        opening(tmp_path / name, content)
    assert "\n" not in str(error.value)


NAMES = ("key", "cell")
MARK = b"\xef\xbb\xbf"


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n\r\n"])
def test_a_mark_at_the_start_and_empty_lines_at_the_end_belong_to_no_line(
    tmp_path: Path, end: bytes
) -> None:
    file = TsvFile(write(tmp_path / "a.tsv", MARK + b"a\t\n" + b"bb\tyz" + end))
    assert file.keys == ["a", "bb"]
    assert [file.cells(line, NAMES) for line in range(2)] == [[b"a", b""], [b"bb", b"yz"]]


def test_lines_are_found_by_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"{number}\t{'x' * number}" for number in range(30)]
    path = write(tmp_path / "a.tsv", ("\n".join(lines) + "\n" * 9).encode())
    for block in (1, 2, 7, 1 << 20):
        monkeypatch.setattr(keyed_files, "BLOCK", block)
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


def test_a_line_too_long_for_an_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "LARGEST", 1000)
    file = TsvFile(write(tmp_path / "a.tsv", b"a\t" + b"x" * 1000 + b"\nb\ty\n"))
    with pytest.raises(InputError, match=r"a\.tsv, line 1: it claims 1,003 bytes, and at most 1,0"):
        file.cells(0, NAMES)
    assert file.cells(1, NAMES) == [b"b", b"y"]


@given(
    st.tuples(st.integers(1, 4000), st.integers(1, 4000)),
    st.lists(st.tuples(*[st.floats(0, 1, width=16)] * 4), min_size=1, max_size=5),
)
def test_boxes_become_relative(size: tuple[int, int], corners: list[tuple[float, ...]]) -> None:
    width, height = size
    pixels = [
        (min(x, u) * width, min(y, v) * height, max(x, u) * width, max(y, v) * height)
        for x, y, u, v in corners
    ]
    assume(max(map(max, pixels)) > 1.02)  # else they are taken for relative ones
    found = relative_boxes(np.array(pixels, np.float32), width, height, "f")
    assert found.dtype == np.float32
    for box, (x1, y1, x2, y2) in zip(found.tolist(), pixels, strict=True):
        assert box == pytest.approx((x1 / width, y1 / height, x2 / width, y2 / height), abs=1e-6)


def test_a_box_that_ends_just_outside_is_cut() -> None:
    boxes = np.array([[-0.5, 0, 200.9, 100.9]], np.float32)
    assert relative_boxes(boxes, 200, 100, "f").tolist() == [[0, 0, 1, 1]]


def test_boxes_of_a_pixel_or_of_none_are_not_taken_for_relative_ones() -> None:
    one_pixel, zeros = np.array([[0, 0, 1, 1]]), np.zeros((1, 4))
    assert relative_boxes(one_pixel, 2, 2, "f").tolist() == [[0, 0, 0.5, 0.5]]
    assert relative_boxes(zeros, 200, 100, "f").tolist() == [[0, 0, 0, 0]]
    with pytest.raises(InputError, match=r"f: boxes: .* these boxes are relative .* 200 x 100$"):
        relative_boxes(one_pixel, 200, 100, "f: boxes")
