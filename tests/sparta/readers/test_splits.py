"""Folders of splits, of HGR and precomp; arrays, TSVs and boxes in files of other software."""

import io
import struct
import sys
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from sparta.errors import InputError
from sparta.readers import base, keyed_files
from sparta.readers.base import relative_boxes
from sparta.readers.keyed_files import TsvFile
from sparta.readers.npy import ArrayFile, Arrays, array_names
from sparta.readers.registry import import_features, open_reader
from sparta.readers.splits import pick_frames, read_names
from tests.needs import package
from tests.sparta.readers.samples import (
    frames_folder,
    means_folder,
    numbers,
    write_names,
    write_precomp,
)


def test_frames_become_regions_of_the_whole_picture(tmp_path: Path) -> None:
    write_names(tmp_path, trn=["b/1", "c"], val=["a"])
    few, many, one = numbers(3, 4), numbers(45, 4), numbers(1, 4)
    folder = frames_folder(tmp_path, trn={"b_1": many, "c": few}, val={"a": one})
    store = import_features(open_reader("hgr", [folder], ["trn", "val"]), tmp_path / "store")
    assert store.ids == ["a", "b/1", "c"]
    for image, wanted in zip(store, [one, many[pick_frames(45)], few], strict=True):
        np.testing.assert_array_equal(image.features, wanted.astype(np.float16))
        assert image.boxes.tolist() == [[0, 0, 1, 1]] * len(wanted)
        assert image.labels == ("",) * len(wanted)
    assert store.source.kind == "region"
    assert (store.source.dimension, store.source.weights) == (4, "resnet152.pth")


@given(frames=st.integers(1, 500))
def test_frames_are_spread_evenly(frames: int) -> None:
    picked = pick_frames(frames).tolist()
    assert len(picked) == min(frames, 20)
    assert picked[0] == 0
    assert picked[-1] == frames - 1
    steps = np.diff(picked)
    if len(steps):
        assert steps.min() >= 1
        assert steps.max() - steps.min() <= 1


def test_a_video_whose_bytes_changed_is_named(tmp_path: Path) -> None:
    write_names(tmp_path, trn=["a"])
    folder = frames_folder(tmp_path, trn={})
    h5py = package("h5py", "video")
    frames = numbers(20, 8)
    path = folder / "trn_ft.hdf5"
    with h5py.File(path, "w") as file:
        file.create_dataset("a", data=frames, chunks=frames.shape, fletcher32=True)
    content = path.read_bytes()
    start = content.index(frames.tobytes())
    path.write_bytes(content[:start] + b"?" + content[start + 1 :])
    with pytest.raises(InputError, match=r"trn_ft\.hdf5, video 'a': damaged"):
        open_reader("hgr", [folder], ["trn"])[0]


MEANS = {"trn": numbers(2, 4), "val": numbers(1, 4), "tst": numbers(1, 5)}


@pytest.mark.parametrize(
    ("splits", "changed", "message"),
    [
        (["trn"], {"trn": numbers(3, 4)}, r"trn_ft\.npy: expected 2 rows, .* found 3"),
        (["new"], {}, r"holds neither new_ft\.hdf5 nor new_ft\.npy"),
        (["all"], {}, r"all_names\.npy: cannot be read"),
        (["trn", "val"], {}, "video 'b' is in two splits: trn and val"),
        (["val", "tst"], {}, r"tst_ft\.npy, video 'c': expected \[frames, 4\], found"),
    ],
)
def test_odd_means_are_named(
    tmp_path: Path, splits: list[str], changed: dict[str, NDArray[Any]], message: str
) -> None:
    write_names(tmp_path, trn=["a", "b"], val=["b"], tst=["c"], new=["d"])
    folder = means_folder(tmp_path, **MEANS | changed)
    with pytest.raises(InputError, match=message):
        open_reader("hgr", [folder], splits)[1]


def test_a_damaged_hdf5_and_no_h5py(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_names(tmp_path, trn=["a"])
    folder = frames_folder(tmp_path, trn={"a": numbers(2, 4)})
    whole = (folder / "trn_ft.hdf5").read_bytes()
    (folder / "trn_ft.hdf5").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"trn_ft\.hdf5 is damaged or no HDF5 file"):
        open_reader("hgr", [folder], ["trn"])
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(InputError, match=r"pip install '.*\[video\]'"):
        open_reader("hgr", [folder], ["trn"])


TEXTS = np.array(["b/1", "c", "é"])
BYTES = np.array([b"b/1", b"c", "é".encode()])
BEYOND, HALF = np.array([[97, 0x110000], [97, 0xD800]], "<u4").view("<U1")  # no characters


@pytest.mark.parametrize(
    ("names", "read"),
    [(kind, True) for kind in (TEXTS, TEXTS.astype(">U3"), BYTES)]
    + [(kind, False) for kind in (BEYOND, HALF, np.array([b"a", b"\xff"]))],
)
def test_names_may_be_stored_in_several_ways(
    tmp_path: Path, names: NDArray[Any], read: bool
) -> None:
    (tmp_path / "public_split").mkdir()
    np.save(tmp_path / "public_split" / "trn_names.npy", names)
    if read:
        assert read_names(tmp_path, "trn") == TEXTS.tolist()
        return
    with pytest.raises(InputError, match=r"trn_names\.npy, name 2: it is no text"):
        read_names(tmp_path, "trn")


def test_only_the_frames_in_use_are_read(tmp_path: Path) -> None:
    """A hundred gigabytes that were never written take neither disk nor memory."""
    write_names(tmp_path, trn=["a", "b", "c", "d"])
    folder = frames_folder(tmp_path, trn={"b": numbers(3, 2048)})
    h5py = package("h5py", "video")
    with h5py.File(folder / "trn_ft.hdf5", "a") as file:
        file.create_dataset("a", (12_000_000, 2048), "<f4", fillvalue=1)
        file.create_dataset("c", (10, 10**9), "<f4")
        file.create_dataset("d", (10**7, 2048), "<f4", chunks=(10**5, 2048))
    tracemalloc.start()
    reader = open_reader("hgr", [folder], ["trn"])
    assert reader[0].features.shape == (20, 2048)
    with pytest.raises(InputError, match=r"video 'c': it claims 40,000,000,000 bytes, and at"):
        reader[2]
    with pytest.raises(InputError, match=r"video 'd': a chunk: it claims 819,200,000 bytes"):
        reader[3]
    assert tracemalloc.get_traced_memory()[1] < 1 << 24
    tracemalloc.stop()


def test_splits_are_put_together_in_order_of_their_ids(tmp_path: Path) -> None:
    train, dev = numbers(2, 3, 4), numbers(3, 3, 4)
    write_precomp(tmp_path, "train", train, ["9"] * 5 + ["11"] * 5)
    write_precomp(tmp_path, "dev", dev, ["8", "10", "7"])
    reader = open_reader(
        "precomp", [tmp_path], ["train", "dev:2"], image_suffix=".jpg", made_by="butd"
    )
    store = import_features(reader, tmp_path / "store")
    assert store.ids == ["10.jpg", "11.jpg", "8.jpg", "9.jpg"]
    for image, wanted in zip(store, [dev[1], train[1], dev[0], train[0]], strict=True):
        np.testing.assert_array_equal(image.features, wanted.astype(np.float16))
        assert image.boxes.tolist() == [[0, 0, 1, 1]] * 3
        assert image.labels == ("", "", "")
    assert store.source.kind == "region"
    assert (store.source.dimension, store.source.weights) == (4, "butd")


@pytest.mark.parametrize("repeat", [1, 5])
@pytest.mark.parametrize("kind", ["<f2", ">f4", "<f8"])
def test_a_photo_has_one_vector_or_several_and_may_be_repeated(
    tmp_path: Path, kind: str, repeat: int
) -> None:
    """With a row for each caption, as SCAN's converter writes them."""
    features = numbers(3, 2, 4).astype(kind)
    write_precomp(tmp_path, "many", np.repeat(features, repeat, axis=0), ["7", "9", "8"])
    write_precomp(
        tmp_path, "one", np.asfortranarray(features[:, 0]).repeat(repeat, axis=0), [*"132"]
    )
    for split in ("many", "one"):
        reader = open_reader("precomp", [tmp_path], [split])
        assert reader.ids == (["7", "8", "9"] if split == "many" else ["1", "2", "3"])
        for row, wanted in enumerate(features[[0, 2, 1]]):
            own = wanted if split == "many" else wanted[:1]
            np.testing.assert_array_equal(reader[row].features, own.astype(np.float16))
            assert reader[row].boxes.tolist() == [[0, 0, 1, 1]] * len(own)


@pytest.mark.parametrize(
    ("splits", "dev", "message"),
    [
        (["dev"], numbers(3, 2, 4), r"dev_ims\.npy: 3 rows for the 2 images of dev_ids\.txt"),
        (["dev"], numbers(2), r"dev_ims\.npy: expected float with 2 or 3 axes, found float32 \[2"),
        (["dev"], np.full((2, 3, 4), None), r"dev_ims\.npy holds Python objects"),
        (["dev"], numbers(10, 2, 4), r"image 1 \(2\): features: its rows 1 and 2 differ"),
        (["train", "dev"], numbers(2, 3, 4), "image '2' is in two splits: train and dev"),
        (["train", "test"], numbers(2, 3, 4), r"test_ims\.npy: expected vectors of 4 numbers as "),
        (["val"], numbers(2, 3, 4), r"val_ims\.npy: cannot be read: No such file"),
    ],
)
def test_odd_splits_are_named(
    tmp_path: Path, splits: list[str], dev: NDArray[Any], message: str
) -> None:
    write_precomp(tmp_path, "train", numbers(2, 3, 4), ["1", "2"])
    write_precomp(tmp_path, "dev", dev, ["2", "3"])
    write_precomp(tmp_path, "test", numbers(1, 3, 5), ["4"])
    with pytest.raises(InputError, match=message):
        open_reader("precomp", [tmp_path], splits)[0]


# ---- arrays, TSVs and boxes ----------------------------------------------------------------------

FIELDS = b"{'descr': '<i8', 'fortran_order': False, 'shape': (), }"
# Headers changed as fuzzing changed them, and what NumPy raises out of its parser of each.
HEADERS = {
    "IndentationError, dedent": FIELDS + b"\n  " + b"\0" * 56 + b"\n \0",
    "TokenError": b"(" * 100 + b"\n",
    "OverflowError, shape": FIELDS.replace(b"()", b"(" + b"9" * 30 + b",)") + b"\n",
    "MemoryError": FIELDS.replace(b"()", b"(" + b"9" * 13 + b",)") + b"\n",
    "ValueError of two lines": FIELDS + b" " * 20000 + b"\n",
}


def npy(header: bytes) -> bytes:
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(8)


def claim(shape: tuple[int, ...], entries: int = 8) -> bytes:
    """A header that states a shape of float32, and some bytes of entries."""
    fields = {"descr": "<f4", "fortran_order": False, "shape": shape}
    return npy(repr(fields).encode() + b"\n")[:-8] + bytes(entries)


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


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def test_lines_are_found_by_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"{number}\t{'x' * number}" for number in range(30)]
    path = write(tmp_path / "a.tsv", ("\n".join(lines) + "\n" * 9).encode())
    for block in (1, 2, 7, 1 << 20):
        monkeypatch.setattr(keyed_files, "BLOCK", block)
        file = TsvFile(path)
        assert file.keys == [str(number) for number in range(30)]
        assert file.cells(29, NAMES)[1] == b"x" * 29
    path.write_bytes(b"9" * 2000)
    with pytest.raises(InputError, match=r"a\.tsv, line 1: the file has changed while it was rea"):
        file.cells(0, NAMES)


def test_a_line_too_long_for_an_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "LARGEST", 1000)
    file = TsvFile(write(tmp_path / "a.tsv", b"a\t" + b"x" * 1000 + b"\nb\ty\n"))
    with pytest.raises(InputError, match=r"a\.tsv, line 1: it claims 1,003 bytes, and at most 1,0"):
        file.cells(0, NAMES)
    assert file.cells(1, NAMES) == [b"b", b"y"]


def test_boxes_of_a_pixel_or_of_none_are_not_taken_for_relative_ones() -> None:
    one_pixel, zeros = np.array([[0, 0, 1, 1]]), np.zeros((1, 4))
    beyond = np.array([[-0.5, 0, 200.9, 100.9]], np.float32)  # by less than a pixel: cut
    assert relative_boxes(beyond, 200, 100, "f").tolist() == [[0, 0, 1, 1]]
    assert relative_boxes(one_pixel, 2, 2, "f").tolist() == [[0, 0, 0.5, 0.5]]
    assert relative_boxes(zeros, 200, 100, "f").tolist() == [[0, 0, 0, 0]]
    with pytest.raises(InputError, match=r"f: boxes: .* these boxes are relative .* 200 x 100$"):
        relative_boxes(one_pixel, 200, 100, "f: boxes")
