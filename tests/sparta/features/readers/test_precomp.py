from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from sparta.errors import InputError
from sparta.features.readers.import_store import import_features
from sparta.features.readers.precomp import PrecompReader, fits
from tests.sparta.features.readers.mutations import mutated, read_all


def write(folder: Path, split: str, features: NDArray[Any], ids: list[str]) -> Path:
    np.save(folder / f"{split}_ims.npy", features)
    (folder / f"{split}_ids.txt").write_text("\n".join(ids) + "\n")
    return folder


def numbers(*shape: int) -> NDArray[np.float32]:
    return np.random.default_rng(shape).normal(size=shape).astype(np.float32)


def test_splits_are_put_together_in_order_of_their_ids(tmp_path: Path) -> None:
    train, dev = numbers(2, 3, 4), numbers(3, 3, 4)
    write(tmp_path, "train", train, ["9"] * 5 + ["11"] * 5)
    write(tmp_path, "dev", dev, ["8", "10", "7"])
    reader = PrecompReader(tmp_path, ["train", "dev:2"], image_suffix=".jpg", name="butd")
    store = import_features(reader, tmp_path / "store")
    assert store.ids == ["10.jpg", "11.jpg", "8.jpg", "9.jpg"]
    for image, wanted in zip(store, [dev[1], train[1], dev[0], train[0]], strict=True):
        np.testing.assert_array_equal(image.features, wanted.astype(np.float16))
        assert image.boxes.tolist() == [[0, 0, 1, 1]] * 3
        assert image.labels == ("", "", "")
    assert store.source.kind == "region"
    assert (store.source.dimension, store.source.weights) == (4, "butd")


def test_a_file_cut_while_it_is_read_is_an_error(tmp_path: Path) -> None:
    reader = PrecompReader(write(tmp_path, "dev", numbers(2, 3, 4), ["1", "2"]), ["dev"])
    with (tmp_path / "dev_ims.npy").open("r+b") as file:
        file.truncate(200)
    with pytest.raises(InputError, match=r"dev_ims\.npy, row 2: the file was cut short"):
        reader[1]


def test_a_row_for_each_caption_is_one_image(tmp_path: Path) -> None:
    """As SCAN's converter writes them."""
    features = numbers(3, 2, 4)
    write(tmp_path, "dev", np.repeat(features, 5, axis=0), ["9"] * 5 + ["8"] * 5 + ["7"] * 5)
    reader = PrecompReader(tmp_path, ["dev:2"])
    assert reader.ids == ["8", "9"]
    for row, wanted in enumerate(features[1::-1]):
        np.testing.assert_array_equal(reader[row].features, wanted.astype(np.float16))


def test_rows_of_one_image_that_differ_are_named(tmp_path: Path) -> None:
    write(tmp_path, "dev", numbers(10, 2, 4), ["9"] * 5 + ["8"] * 5)
    with pytest.raises(InputError, match=r"image 6 \(8\): features: its rows 1 and 2 differ"):
        PrecompReader(tmp_path, ["dev"])[0]
    write(tmp_path, "dev", numbers(10, 2, 4), ["9"] * 5 + ["8"] * 4 + ["7"])
    with pytest.raises(InputError, match=r"line 6: expected 5 lines of one image, found '8' and"):
        PrecompReader(tmp_path, ["dev"])


def test_a_byte_order_mark_and_an_empty_last_line_are_no_ids(tmp_path: Path) -> None:
    write(tmp_path, "dev", numbers(2, 3, 4), ["1", "2"])
    (tmp_path / "dev_ids.txt").write_bytes(b"\xef\xbb\xbf1\r\n2\r\n\r\n\n")
    assert PrecompReader(tmp_path, ["dev"]).ids == ["1", "2"]


def changed(value: float) -> NDArray[np.float32]:
    features = numbers(2, 3, 4)
    features[1, 2] = value
    return features


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (changed(np.nan), r"image 2 \(2\): features, row 3: expected finite numbers .* found nan"),
        (changed(-7e4), r"image 2 \(2\): features, row 3: expected finite .* found -70000"),
        (changed(0), r"image 2 \(2\): features, row 3: all its numbers are 0"),
        (numbers(2, 0, 4), r"image 2 \(2\): features: no rows"),
    ],
)
def test_an_odd_row_is_named(tmp_path: Path, features: NDArray[Any], message: str) -> None:
    write(tmp_path, "dev", features, ["1", "2"])
    with pytest.raises(InputError, match=r"dev_ims\.npy.*" + message):
        PrecompReader(tmp_path, ["dev"])[1]


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (numbers(3, 2, 4), r"dev_ids\.txt: expected 3 lines, .* found 2"),
        (numbers(1, 2, 4), r"dev_ids\.txt, line 1: expected 2 lines of one image, found '1' and"),
        (numbers(2, 4), r"dev_ims\.npy: expected float with 3 axes, found float32 \[2, 4\]"),
        (np.ones((2, 3, 4), int), r"dev_ims\.npy: expected float with 3 axes, found int64"),
        (np.full((2, 3, 4), None), r"dev_ims\.npy holds Python objects"),
    ],
)
def test_an_odd_file_is_named(tmp_path: Path, features: NDArray[Any], message: str) -> None:
    write(tmp_path, "dev", features, ["1", "2"])
    with pytest.raises(InputError, match=message):
        PrecompReader(tmp_path, ["dev"])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "damaged or no .npy file"),
        (b"hello world", "damaged or no .npy file$"),  # no word of loading it unsafely
        (b"cut", r"damaged or no .npy file: float32 \[2, 3, 4\] takes 96 bytes, and it has 88"),
        (b"npz", "is an .npz, expected an .npy"),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    path = write(tmp_path, "dev", numbers(2, 3, 4), ["1", "2"]) / "dev_ims.npy"
    if content == b"cut":
        content = path.read_bytes()[:-8]
    elif content == b"npz":
        np.savez(tmp_path / "x.npz", numbers(2, 3, 4))
        content = (tmp_path / "x.npz").read_bytes()
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        PrecompReader(tmp_path, ["dev"])


def test_splits_that_do_not_go_together_are_named(tmp_path: Path) -> None:
    write(tmp_path, "train", numbers(2, 3, 4), ["1", "2"])
    write(tmp_path, "dev", numbers(2, 3, 4), ["2", "3"])
    write(tmp_path, "test", numbers(1, 3, 5), ["4"])
    with pytest.raises(InputError, match="image '2' is in two splits: train and dev"):
        PrecompReader(tmp_path, ["train", "dev"])
    with pytest.raises(InputError, match=r"test_ims\.npy: expected \[images, regions, 4\] as "):
        PrecompReader(tmp_path, ["train", "test"])
    with pytest.raises(InputError, match=r"val_ims\.npy: cannot be read: No such file"):
        PrecompReader(tmp_path, ["val"])


@given(data=st.data(), changes=st.sampled_from(["dev_ims.npy", "dev_ids.txt"]))
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_whatever_changes_in_a_file_is_noticed_or_harmless(
    tmp_path: Path, data: st.DataObject, changes: str
) -> None:
    write(tmp_path, "dev", numbers(3, 2, 4), ["7", "7", "8", "8", "9", "9"])
    assert len(read_all(lambda: PrecompReader(tmp_path, ["dev"]))) == 3
    path = tmp_path / changes
    content = data.draw(mutated(path.read_bytes()))
    path.unlink()  # what was mapped stays as it was
    path.write_bytes(content)
    fits(tmp_path)
    read_all(lambda: PrecompReader(tmp_path, ["dev"]))
