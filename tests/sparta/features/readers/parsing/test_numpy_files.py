from __future__ import annotations

import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from sparta.errors import InputError
from sparta.features.readers.parsing.numpy_files import Arrays, array_names, map_array

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


@pytest.mark.parametrize("header", HEADERS.values(), ids=HEADERS.keys())
def test_every_damaged_header_is_a_damaged_file(header: bytes, tmp_path: Path) -> None:
    path = tmp_path / "array.npy"
    path.write_bytes(npy(header))
    with pytest.raises(InputError, match=r"array\.npy is damaged or no \.npy file") as error:
        map_array(path, 2, "float")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("header", HEADERS.values(), ids=HEADERS.keys())
def test_every_damaged_header_is_a_damaged_archive(header: bytes, tmp_path: Path) -> None:
    path = tmp_path / "arrays.npz"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("x.npy", npy(header))
    assert array_names(path) == {"x"}
    with pytest.raises(InputError, match=r"arrays\.npz is damaged or no \.npz file") as error:
        Arrays(path, ["x"])
    assert "\n" not in str(error.value)


def test_python_objects_are_never_unpickled(tmp_path: Path) -> None:
    np.save(tmp_path / "objects.npy", np.array([[{}]]), allow_pickle=True)
    with pytest.raises(InputError, match="holds Python objects"):
        map_array(tmp_path / "objects.npy", 2, "float")
