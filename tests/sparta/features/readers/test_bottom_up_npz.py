import io
import os
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparta.errors import InputError
from sparta.features.readers.bottom_up_npz import CONVERSION, BottomUpNpzReader, fits
from sparta.features.readers.import_store import import_features
from sparta.features.readers.parsing.region_limit import RegionLimit
from sparta.features.skipped import SKIPPED
from tests.sparta.features.readers.bottom_up_files import BOXES, FEATURES, changed
from tests.sparta.features.readers.mutations import mutated, read_all
from tests.sparta.features.readers.vocabulary_files import write_vocabulary

SEEN: dict[str, Any] = {
    "objects_id": np.array([2, 0, 1]),
    "objects_conf": np.array([0.5, 0.25, 0.75], np.float32),
    "attrs_id": np.array([1, 0, 1]),
    "attrs_conf": np.array([0.5, 0.5, 0.0625], np.float32),
}
# As published: what is in the dictionary can be had by unpickling alone.
INFO = {"image_id": "a", "image_h": 32, "image_w": 64, "num_boxes": 3, **SEEN}


class Trap:
    """Fails where it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return pytest.fail, ("a pickle was loaded",)


def write(folder: Path, name: str = "a", without: str = "", **more: Any) -> Path:
    """A folder with one more file in it, as bottom-up-attention.pytorch writes them."""
    folder.mkdir(exist_ok=True)
    arrays: dict[str, Any] = {"x": FEATURES, "bbox": BOXES, "num_bbox": 3}
    arrays |= {"image_h": 32, "image_w": 64, **more}
    arrays.pop(without, None)
    np.savez_compressed(folder / f"{name}.npz", **arrays)
    return folder


def test_reads_features_boxes_and_size_and_leaves_the_pickle_alone(tmp_path: Path) -> None:
    reader = BottomUpNpzReader([write(tmp_path, info=np.array(Trap()))], ".jpg", "resnet101")
    image = reader[0]
    assert (reader.source.kind, reader.source.dimension) == ("region", 3)
    assert reader.source.weights == "resnet101"
    assert image.image_id == "a.jpg"
    assert image.features.tolist() == FEATURES.tolist()
    assert image.boxes.tolist() == [[0.25, 0.25, 0.75, 1], [0, 0, 1, 1], [0.125, 0.25, 0.125, 0.75]]
    assert (image.labels, image.attributes) == (("",) * 3, ("",) * 3)
    assert (image.width, image.height) == (64, 32)


def test_classes_stand_in_the_pickle_until_it_is_converted(tmp_path: Path) -> None:
    folder = write(tmp_path / "in", info=INFO)
    vocabulary = write_vocabulary(tmp_path)
    message = r"a\.npz: objects_id: missing\. .* If you trust the files, convert them once"
    with pytest.raises(InputError, match=message) as error:
        BottomUpNpzReader([folder], vocabulary=vocabulary)
    _, conversion = str(error.value).split("\n\n")
    assert conversion == CONVERSION.replace("FOLDER", str(folder))
    exec(conversion, {})
    assert set(np.load(folder / "a.npz")) == {"x", "bbox", "num_bbox", "image_h", "image_w", *SEEN}
    image = BottomUpNpzReader([folder], vocabulary=vocabulary)[0]
    assert image.labels == ("buoy", "yolk", "traffic light")
    assert image.attributes == ("red", "gray", "")
    assert image.features.tolist() == FEATURES.tolist()


def test_a_detector_without_attributes_is_converted_too(tmp_path: Path) -> None:
    info = {key: value for key, value in INFO.items() if not key.startswith("attrs")}
    folder = write(tmp_path / "in", info=info)
    exec(CONVERSION.replace("FOLDER", str(folder)), {})
    image = BottomUpNpzReader([folder], vocabulary=write_vocabulary(tmp_path))[0]
    assert (image.labels, image.attributes) == (("buoy", "yolk", "traffic light"), ("",) * 3)


def test_regions_are_chosen_with_all_that_belongs_to_them(tmp_path: Path) -> None:
    folder = write(tmp_path / "in", **SEEN)
    vocabulary = write_vocabulary(tmp_path)
    reader = BottomUpNpzReader([folder], limit=RegionLimit(2, "confident"), vocabulary=vocabulary)
    assert reader[0].features.tolist() == FEATURES[[2, 0]].tolist()
    assert (reader[0].labels, reader[0].attributes) == (("traffic light", "buoy"), ("", "red"))
    assert reader.source.extra == {"regions": 2, "keep": "confident"}
    first = BottomUpNpzReader([folder], limit=RegionLimit(1, "confident"))[0]
    assert (first.features.tolist(), first.labels) == (
        [FEATURES[2].tolist()],
        ("",),
    )
    with pytest.raises(InputError, match="objects_id: missing"):
        BottomUpNpzReader([write(tmp_path / "plain")], limit=RegionLimit(1, "confident"))


def test_folders_are_put_together_by_id(tmp_path: Path) -> None:
    write(tmp_path / "train", "9")
    train = write(tmp_path / "train", "11")
    write(tmp_path / "val", "10", x=FEATURES * 2)
    val = write(tmp_path / "val", "9", x=FEATURES * 2)
    reader = BottomUpNpzReader([train, val])
    assert reader.ids == ["10", "11", "9", "9"]
    with pytest.raises(InputError, match=r"val/9\.npz: image '9' was already in .*train/9\.npz"):
        reader[3]
    store = import_features(reader, tmp_path / "store", skip_bad=True)
    assert store.ids == ["10", "11", "9"]
    assert [image.features[0, 0] for image in store] == [2, 1, 1]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"without": "x"}, "x: missing"),
        ({"without": "image_w"}, "image_w: missing"),
        ({"num_bbox": 2}, "bbox: expected float [2, 4], found float32 [3, 4]"),
        ({"num_bbox": 0}, "num_bbox: expected 1 or more, found 0"),
        ({"num_bbox": 3.5}, "num_bbox: expected integer [], found float64 []"),
        ({"image_h": -1}, "image_h: expected 1 or more, found -1"),
        ({"image_h": 2**40}, "image_h: expected at most 2147483647, found 1099511627776"),
        ({"image_h": [32]}, "image_h: expected integer [], found int64 [1]"),
        ({"bbox": BOXES[:, :3]}, "bbox: expected float [3, 4], found float32 [3, 3]"),
        ({"x": FEATURES[:2]}, "x: expected float [3, 3], found float32 [2, 3]"),
        ({"x": FEATURES[:, :2]}, "x: expected float [3, 3], found float32 [3, 2]"),
        ({"x": FEATURES.astype(int)}, "x: expected float [3, 3], found int64 [3, 3]"),
        ({"x": np.full((3, 3), None)}, " is damaged or no .npz file"),
        ({"x": changed(FEATURES, 1, 1, np.nan)}, "features, row 2: expected finite numbers"),
        ({"bbox": changed(BOXES, 2, 3, 99)}, "bbox, row 3: expected x1, y1, x2, y2 in pixels"),
        ({"without": "objects_id"}, "objects_id: missing"),
        ({"without": "objects_conf"}, "objects_conf: missing"),
        ({"without": "attrs_conf"}, "attrs_conf: missing"),
        ({"objects_id": [2, 0]}, "objects_id: expected integer [3], found int64 [2]"),
        ({"objects_id": [2, 0, 3]}, "objects_id, row 3: expected 0 to 2, the lines of"),
        ({"objects_conf": [0.5, 0.5, 2]}, "objects_conf, row 3: expected 0 to 1, found 2.0"),
    ],
)
def test_an_odd_array_is_named(tmp_path: Path, more: dict[str, Any], message: str) -> None:
    write(tmp_path / "in", "a", **SEEN)
    folder = write(tmp_path / "in", "b", **(SEEN | more))
    reader = BottomUpNpzReader([folder], vocabulary=write_vocabulary(tmp_path))
    with pytest.raises(
        InputError, match="^" + re.escape(str(folder / "b.npz")) + ":? ?" + re.escape(message)
    ):
        reader[1]
    assert reader[0].labels == ("buoy", "yolk", "traffic light")


def test_an_array_that_is_none_is_named(tmp_path: Path) -> None:
    folder = write(tmp_path)
    write(tmp_path, "b", without="x")
    with zipfile.ZipFile(folder / "b.npz", "a") as archive:
        archive.writestr("x.npy", b"hello")
    with pytest.raises(
        InputError, match=r"b\.npz is damaged or no \.npz file: x\.npy: EOF: reading magic"
    ):
        BottomUpNpzReader([folder])[1]


@pytest.mark.parametrize("content", [b"", b"hello", b"PK\3\4cut"])
def test_a_damaged_file_is_named(tmp_path: Path, content: bytes) -> None:
    folder = write(tmp_path, "b")
    (folder / "a.npz").write_bytes(content)
    reader = BottomUpNpzReader([folder])
    with pytest.raises(InputError, match=r"a\.npz is damaged or no \.npz file: File is not a zip"):
        reader[0]
    assert reader[1].features.tolist() == FEATURES.tolist()
    (folder / "b.npz").unlink()
    with pytest.raises(InputError, match=r"a\.npz is damaged"):
        BottomUpNpzReader([folder])


def test_a_file_whose_name_is_no_text_is_skipped_like_others(tmp_path: Path) -> None:
    folder = write(tmp_path / "in", "b")
    try:
        write(folder, os.fsdecode(b"a\xff"))
    except OSError:
        pytest.skip("this file system takes UTF-8 alone")
    store = import_features(BottomUpNpzReader([folder]), tmp_path / "store", skip_bad=True)
    assert store.ids == ["b"]
    assert r"a\\xff.npz: the file name is not UTF-8" in (tmp_path / "store" / SKIPPED).read_text()


def test_a_folder_without_files_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"is no folder with \.npz files"):
        BottomUpNpzReader([tmp_path])
    with pytest.raises(InputError, match=r"absent is no folder with \.npz files"):
        BottomUpNpzReader([tmp_path / "absent"])


def test_knows_its_folders_by_the_names_of_arrays(tmp_path: Path) -> None:
    assert fits(write(tmp_path / "in"))
    assert not fits(write(tmp_path / "other", without="bbox"))
    assert not fits(tmp_path)
    assert not fits(tmp_path / "absent")
    (tmp_path / "in" / "a.npz").write_bytes(b"hello")
    assert not fits(tmp_path / "in")


def with_changes(draw: Callable[..., Any], archive: Path) -> bytes:
    """An archive whose own bytes have changed, or those of one of the arrays in it."""
    if draw(st.booleans()):
        return draw(mutated(archive.read_bytes()))
    with zipfile.ZipFile(archive) as file:
        members = {name: file.read(name) for name in file.namelist()}
    name = draw(st.sampled_from(sorted(members)))
    members[name] = draw(mutated(members[name]))
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as file:
        for name, member in members.items():
            file.writestr(name, member)
    return content.getvalue()


@given(data=st.data(), labels=st.booleans(), by=st.sampled_from(["first", "confident"]))
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_whatever_changes_in_a_file_is_noticed_or_harmless(
    tmp_path: Path, data: st.DataObject, labels: bool, by: Any
) -> None:
    folder = write(tmp_path / "in", "a", **SEEN, info=INFO)
    (folder / "b.npz").write_bytes(with_changes(data.draw, folder / "a.npz"))
    fits(folder)
    vocabulary = write_vocabulary(tmp_path) if labels else None
    limit = RegionLimit(2, by)
    images = read_all(lambda: BottomUpNpzReader([folder], limit=limit, vocabulary=vocabulary))
    assert images[0].image_id == "a"
    assert images[0].features.tolist() == FEATURES[[2, 0] if by == "confident" else [0, 1]].tolist()
