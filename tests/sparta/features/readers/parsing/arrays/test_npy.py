from pathlib import Path

import numpy as np
import pytest

from sparta.errors import InputError
from sparta.features.readers.parsing.arrays.npy import ArrayFile
from tests.sparta.features.readers.parsing.arrays.npy_bytes import HEADERS, claim, npy


@pytest.mark.parametrize("header", HEADERS.values(), ids=HEADERS.keys())
def test_every_damaged_header_is_a_damaged_file(header: bytes, tmp_path: Path) -> None:
    path = tmp_path / "array.npy"
    path.write_bytes(npy(header))
    with pytest.raises(InputError, match=r"array\.npy is damaged or no \.npy file") as error:
        ArrayFile(path, 2, "float")
    assert "\n" not in str(error.value)


def test_python_objects_are_never_unpickled(tmp_path: Path) -> None:
    np.save(tmp_path / "objects.npy", np.array([[{}]]), allow_pickle=True)
    with pytest.raises(InputError, match="holds Python objects"):
        ArrayFile(tmp_path / "objects.npy", 2, "float")


@pytest.mark.parametrize("order", ["C", "F"])
def test_rows_are_read_in_either_order(tmp_path: Path, order: str) -> None:
    values = np.random.default_rng(0).normal(size=(5, 3, 2))
    np.save(tmp_path / "a.npy", np.asarray(values, ">f4", order=order))  # type: ignore[call-overload]
    file = ArrayFile(tmp_path / "a.npy", 3, "float")
    assert (len(file), file.shape) == (5, (5, 3, 2))
    for row in range(5):
        np.testing.assert_array_equal(file[row], values[row].astype(np.float32))
    np.testing.assert_array_equal(file.whole, values.astype(np.float32))


def test_a_file_cut_while_it_is_read_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.ones((4, 1024, 2)))
    file = ArrayFile(path, 3, "float")
    path.write_bytes(path.read_bytes()[:-40000])
    assert file[0].all()
    with pytest.raises(InputError, match=r"a\.npy, row 2: the file was cut short .* 7,232 bytes"):
        file[1]
    path.unlink()
    with pytest.raises(InputError, match=r"a\.npy: cannot be read: No such file"):
        file[0]


def test_a_claim_is_checked_before_memory_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    path.write_bytes(claim((10**9, 2048)))
    with pytest.raises(InputError, match=r"damaged or no \.npy file: .*8,192,000,000,000 bytes"):
        ArrayFile(path, 2, "float")
    with path.open("wb") as file:  # a file with holes has the size that it states
        file.write(claim((2, 10**9), 0))
        file.truncate(file.tell() + 8 * 10**9)
    with pytest.raises(InputError, match=r"a\.npy, row 1: it claims 4,000,000,000 bytes, and at"):
        ArrayFile(path, 2, "float")[0]
    with pytest.raises(InputError, match=r"a\.npy, read as a whole: it claims 8,000,000,000"):
        _ = ArrayFile(path, 2, "float").whole


def test_other_versions_of_the_format_are_damage(tmp_path: Path) -> None:
    (tmp_path / "a.npy").write_bytes(b"\x93NUMPY\x03\x00" + bytes(100))
    with pytest.raises(InputError, match=r"no \.npy file: version \(3, 0\) of the format"):
        ArrayFile(tmp_path / "a.npy", 2, "float")
