import os
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from sparta.errors import InputError
from sparta.features.readers.hgr import HgrReader, fits, pick_frames, read_names
from sparta.features.readers.import_store import import_features
from tests.sparta.features.readers.mutations import mutated, read_all


def numbers(*shape: int) -> NDArray[np.float32]:
    return np.random.default_rng(shape).normal(size=shape).astype(np.float32)


def write_names(root: Path, **splits: list[str]) -> None:
    (root / "public_split").mkdir()
    for split, names in splits.items():
        np.save(root / "public_split" / f"{split}_names.npy", np.array(names))


def frames_folder(root: Path, **splits: dict[str, Any]) -> Path:
    """Features as a matrix per video: split → name → [frames, d]."""
    h5py = pytest.importorskip("h5py", reason="extra [video] is not installed")
    folder = root / "ordered_feature" / "SA" / "resnet152.pth"
    folder.mkdir(parents=True)
    for split, videos in splits.items():
        with h5py.File(folder / f"{split}_ft.hdf5", "w") as file:
            for name, frames in videos.items():
                file[name] = frames
    return folder


def means_folder(root: Path, **splits: NDArray[Any]) -> Path:
    folder = root / "ordered_feature" / "MP" / "i3d"
    folder.mkdir(parents=True)
    for split, features in splits.items():
        np.save(folder / f"{split}_ft.npy", features)
    return folder


def test_frames_become_regions_of_the_whole_picture(tmp_path: Path) -> None:
    write_names(tmp_path, trn=["b/1", "c"], val=["a"])
    few, many, one = numbers(3, 4), numbers(45, 4), numbers(1, 4)
    folder = frames_folder(tmp_path, trn={"b_1": many, "c": few}, val={"a": one})
    store = import_features(HgrReader(folder, ["trn", "val"]), tmp_path / "store")
    assert store.ids == ["a", "b/1", "c"]
    for image, wanted in zip(store, [one, many[pick_frames(45)], few], strict=True):
        np.testing.assert_array_equal(image.features, wanted.astype(np.float16))
        assert image.boxes.tolist() == [[0, 0, 1, 1]] * len(wanted)
        assert image.labels == ("",) * len(wanted)
    assert store.source.kind == "region"
    assert (store.source.dimension, store.source.weights) == (4, "resnet152.pth")


def test_means_become_one_region_each(tmp_path: Path) -> None:
    write_names(tmp_path, trn=["b", "a"])
    means = numbers(2, 4)
    store = import_features(
        HgrReader(means_folder(tmp_path, trn=means), ["trn"]), tmp_path / "store"
    )
    assert store.ids == ["a", "b"]
    np.testing.assert_array_equal(store[0].features, means[1:].astype(np.float16))
    np.testing.assert_array_equal(store[1].features, means[:1].astype(np.float16))


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


@pytest.mark.parametrize(
    ("frames", "message"),
    [
        (np.full((2, 4), np.nan), r"video 'b': features, row 1: expected finite"),
        (np.zeros((2, 4)), r"video 'b': features, row 1: all its numbers are 0"),
        (np.ones((0, 4)), r"video 'b': features: no rows"),
        (np.ones((2, 5)), r"video 'b': expected \[frames, 4\], found \[2, 5\]"),
        (np.ones(4), r"video 'b': expected \[frames, 4\], found \[4\]"),
    ],
)
def test_odd_frames_are_named(tmp_path: Path, frames: NDArray[Any], message: str) -> None:
    write_names(tmp_path, trn=["a", "b"])
    folder = frames_folder(tmp_path, trn={"a": numbers(2, 4), "b": frames})
    with pytest.raises(InputError, match=r"trn_ft\.hdf5, " + message):
        HgrReader(folder, ["trn"])[1]


def test_a_video_without_features_is_named(tmp_path: Path) -> None:
    write_names(tmp_path, trn=["a", "b"])
    reader = HgrReader(frames_folder(tmp_path, trn={"a": numbers(2, 4)}), ["trn"])
    with pytest.raises(InputError, match=r"trn_ft\.hdf5: video 'b' is missing"):
        reader[1]


def test_odd_means_are_named(tmp_path: Path) -> None:
    write_names(tmp_path, trn=["a", "b"], val=["b"], tst=["c"])
    folder = means_folder(tmp_path, trn=numbers(3, 4), val=numbers(1, 4))
    with pytest.raises(InputError, match=r"trn_ft\.npy: expected 2 rows, .* found 3"):
        HgrReader(folder, ["trn"])
    with pytest.raises(InputError, match=r"holds neither tst_ft\.hdf5 nor tst_ft\.npy"):
        HgrReader(folder, ["tst"])
    with pytest.raises(InputError, match=r"all_names\.npy: cannot be read"):
        HgrReader(folder, ["all"])
    np.save(folder / "trn_ft.npy", numbers(2, 4))
    with pytest.raises(InputError, match="video 'b' is in two splits: trn and val"):
        HgrReader(folder, ["trn", "val"])
    np.save(folder / "tst_ft.npy", numbers(1, 5))
    with pytest.raises(InputError, match=r"tst_ft\.npy, video 'c': expected \[frames, 4\], found"):
        HgrReader(folder, ["val", "tst"])[1]


def test_a_video_whose_bytes_changed_is_named(tmp_path: Path) -> None:
    write_names(tmp_path, trn=["a"])
    folder = frames_folder(tmp_path, trn={})
    h5py = pytest.importorskip("h5py")
    frames = numbers(20, 8)
    path = folder / "trn_ft.hdf5"
    with h5py.File(path, "w") as file:
        file.create_dataset("a", data=frames, chunks=frames.shape, fletcher32=True)
    content = path.read_bytes()
    start = content.index(frames.tobytes())
    path.write_bytes(content[:start] + b"?" + content[start + 1 :])
    with pytest.raises(InputError, match=r"trn_ft\.hdf5, video 'a': damaged"):
        HgrReader(folder, ["trn"])[0]


def test_a_damaged_hdf5_and_an_absent_h5py_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_names(tmp_path, trn=["a"])
    folder = frames_folder(tmp_path, trn={"a": numbers(2, 4)})
    whole = (folder / "trn_ft.hdf5").read_bytes()
    (folder / "trn_ft.hdf5").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"trn_ft\.hdf5 is damaged or no HDF5 file"):
        HgrReader(folder, ["trn"])
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(InputError, match=r"pip install 'visualsparta\[video\]'"):
        HgrReader(folder, ["trn"])


@pytest.mark.parametrize("dtype", ["<U3", ">U3", "S4"])
def test_names_may_be_stored_in_several_ways(tmp_path: Path, dtype: str) -> None:
    (tmp_path / "public_split").mkdir()
    names = np.array(["b/1", "c", "é"]) if "U" in dtype else np.array([b"b/1", b"c", "é".encode()])
    np.save(tmp_path / "public_split" / "trn_names.npy", names.astype(dtype))
    assert read_names(tmp_path, "trn") == ["b/1", "c", "é"]


@pytest.mark.parametrize(
    "names",
    [
        np.array([97, 0x110000], "<u4").view("<U1"),  # beyond the last character
        np.array([97, 0xD800], "<u4").view("<U1"),  # half of a pair
        np.array([b"a", b"\xff"]),
    ],
)
def test_a_name_that_is_no_text_is_named(tmp_path: Path, names: NDArray[Any]) -> None:
    (tmp_path / "public_split").mkdir()
    np.save(tmp_path / "public_split" / "trn_names.npy", names)
    with pytest.raises(InputError, match=r"trn_names\.npy, name 2: it is no text"):
        read_names(tmp_path, "trn")


NAMES = ["b/1", "c", "a"]


def fuzz(path: Path, folder: Path, draw: Callable[..., Any]) -> None:
    content = draw(mutated(path.read_bytes()))
    path.unlink()  # what was mapped stays as it was
    path.write_bytes(content)
    fits(folder)
    read_all(lambda: HgrReader(folder, ["trn"]))


@given(data=st.data(), changes=st.sampled_from(["trn_names.npy", "trn_ft.npy"]))
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_whatever_changes_in_means_is_noticed_or_harmless(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, changes: str
) -> None:
    root = tmp_path_factory.mktemp("means")
    write_names(root, trn=NAMES)
    folder = means_folder(root, trn=numbers(3, 4))
    assert len(read_all(lambda: HgrReader(folder, ["trn"]))) == 3
    fuzz(
        root / "public_split" / changes if "names" in changes else folder / changes,
        folder,
        data.draw,
    )


@given(data=st.data())
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_whatever_changes_in_frames_is_noticed_or_harmless(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    root = tmp_path_factory.mktemp("frames")
    write_names(root, trn=NAMES)
    folder = frames_folder(root, trn={name.replace("/", "_"): numbers(2, 4) for name in NAMES})
    assert len(read_all(lambda: HgrReader(folder, ["trn"]))) == 3
    fuzz(folder / "trn_ft.hdf5", folder, data.draw)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("words", "a single object"),
        (3.0, "a single float64"),
        ([b"words", b"more"], r"object \[2\]"),
    ],
)
def test_what_is_no_video_is_named(tmp_path: Path, value: Any, found: str) -> None:
    write_names(tmp_path, trn=["a", "b"])
    folder = frames_folder(tmp_path, trn={"a": value, "b": numbers(2, 4)})
    reader = HgrReader(folder, ["trn"])
    message = rf"trn_ft\.hdf5, video 'a': expected numbers of \[frames, d\], found {found}"
    with pytest.raises(InputError, match=message):
        reader[0]
    assert reader[1].features.shape == (2, 4)


def test_a_group_is_no_video(tmp_path: Path) -> None:
    write_names(tmp_path, trn=["a"])
    folder = frames_folder(tmp_path, trn={"a/frames": numbers(2, 4)})
    with pytest.raises(InputError, match=r"video 'a': expected numbers of .*, found a group"):
        HgrReader(folder, ["trn"])


def test_a_file_without_the_names_of_any_video_is_named(tmp_path: Path) -> None:
    write_names(tmp_path, trn=["a"])
    folder = frames_folder(tmp_path, trn={})
    with pytest.raises(InputError, match=r"trn_ft\.hdf5: video 'a' is missing"):
        HgrReader(folder, ["trn"])


def test_only_the_frames_in_use_are_read(tmp_path: Path) -> None:
    """A hundred gigabytes that were never written take neither disk nor memory."""
    write_names(tmp_path, trn=["a", "b", "c", "d"])
    folder = frames_folder(tmp_path, trn={"b": numbers(3, 2048)})
    h5py = pytest.importorskip("h5py")
    with h5py.File(folder / "trn_ft.hdf5", "a") as file:
        file.create_dataset("a", (12_000_000, 2048), "<f4", fillvalue=1)
        file.create_dataset("c", (10, 10**9), "<f4")
        file.create_dataset("d", (10**7, 2048), "<f4", chunks=(10**5, 2048))
    tracemalloc.start()
    reader = HgrReader(folder, ["trn"])
    assert reader[0].features.shape == (20, 2048)
    with pytest.raises(InputError, match=r"video 'c': it claims 40,000,000,000 bytes, and at"):
        reader[2]
    with pytest.raises(InputError, match=r"video 'd': a chunk: it claims 819,200,000 bytes"):
        reader[3]
    assert tracemalloc.get_traced_memory()[1] < 1 << 24
    tracemalloc.stop()


def test_a_file_cut_while_it_is_read_is_an_error(tmp_path: Path) -> None:
    write_names(tmp_path, trn=["a", "b"])
    folder = frames_folder(tmp_path, trn={"a": numbers(9, 2048), "b": numbers(9, 2048)})
    reader = HgrReader(folder, ["trn"])
    os.truncate(folder / "trn_ft.hdf5", (folder / "trn_ft.hdf5").stat().st_size // 2)
    with pytest.raises(InputError, match=r"trn_ft\.hdf5: the file was cut short while it was read"):
        reader[1]
