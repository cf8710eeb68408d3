import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest

from sparta.errors import InputError
from sparta.features.readers.bottom_up_npz import FLOATS, Arrays, array_names
from sparta.features.readers.parsing import memory_limit
from tests.sparta.features.readers.parsing.arrays.npy_bytes import HEADERS, claim, npy


@pytest.mark.parametrize("header", HEADERS.values(), ids=HEADERS.keys())
def test_every_damaged_header_is_a_damaged_archive(header: bytes, tmp_path: Path) -> None:
    path = tmp_path / "arrays.npz"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("x.npy", npy(header))
    assert array_names(path) == {"x"}
    with pytest.raises(InputError, match=r"arrays\.npz is damaged or no \.npz file") as error:
        Arrays(path, ["x"])
    assert "\n" not in str(error.value)


def test_arrays_are_read_in_either_order(tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=(3, 2)).astype(np.float32)
    np.savez_compressed(tmp_path / "a.npz", c=values, f=np.asfortranarray(values))
    arrays = Arrays(tmp_path / "a.npz", ["c", "f", "absent"])
    assert "absent" not in arrays
    for name in "cf":
        np.testing.assert_array_equal(arrays.get(name, FLOATS, (3, 2)), values)


def test_a_stated_shape_is_checked_before_memory_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("x.npy", claim((10**9, 2048)))
    with pytest.raises(InputError, match=r"no \.npz file: .*takes 8,192,000,000,000 bytes, and"):
        Arrays(path, ["x"])


def test_compressed_zeros_are_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_limit, "LARGEST", 1 << 20)
    path = tmp_path / "a.npz"
    np.savez_compressed(path, x=np.zeros((8, 1 << 20), np.float32))
    assert path.stat().st_size < 1 << 16
    tracemalloc.start()
    with pytest.raises(InputError, match=r"a\.npz: x: it claims 33,554,432 bytes, and at most"):
        Arrays(path, ["x"])
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


def test_python_objects_are_never_unpickled(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.array([{}]))
    with pytest.raises(InputError, match=r"no \.npz file: x\.npy: it holds Python objects"):
        Arrays(tmp_path / "a.npz", ["x"])
