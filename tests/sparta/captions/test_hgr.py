import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sparta.captions.read import CaptionedPhoto, read_captions
from sparta.errors import InputError
from sparta.features.readers.hgr import HgrReader
from sparta.features.readers.import_store import import_features

CAPTIONS = {"v/1": ["a man sings", "someone sings"], "v2": ["a dog runs"], "v3": ["x"]}


def write(root: Path, captions: Any = CAPTIONS, **splits: list[str]) -> Path:
    (root / "public_split").mkdir(exist_ok=True, parents=True)
    (root / "annotation" / "RET").mkdir(exist_ok=True, parents=True)
    (root / "annotation" / "RET" / "ref_captions.json").write_text(json.dumps(captions))
    for split, names in splits.items():
        np.save(root / "public_split" / f"{split}_names.npy", np.array(names))
    return root


def test_videos_keep_all_their_captions(tmp_path: Path) -> None:
    root = write(tmp_path, trn=["v2", "v/1"], tst=["v3"])
    train = [
        CaptionedPhoto("v2", "trn", ("a dog runs",)),
        CaptionedPhoto("v/1", "trn", ("a man sings", "someone sings")),
    ]
    assert read_captions(root, "trn") == train
    assert read_captions(root) == [*train, CaptionedPhoto("v3", "tst", ("x",))]
    with pytest.raises(
        InputError, match=r"no split 'val'; public_split has names of .'trn', 'tst'"
    ):
        read_captions(root, "val")


def test_captions_and_features_have_the_same_ids(tmp_path: Path) -> None:
    root = write(tmp_path / "in", trn=["v2", "v/1"])
    folder = root / "ordered_feature" / "MP" / "resnet152.pth"
    folder.mkdir(parents=True)
    np.save(folder / "trn_ft.npy", np.array([[1, 2], [3, 4]], np.float32))
    store = import_features(HgrReader(folder, ["trn"]), tmp_path / "store")
    found = [store[store.index(video.image_id)].features for video in read_captions(root, "trn")]
    assert [features.tolist() for features in found] == [[[1, 2]], [[3, 4]]]


@pytest.mark.parametrize(
    ("captions", "names", "message"),
    [
        ({"v2": ["x"]}, ["v2", "v/1"], r"json: video 'v/1' of split 'trn' has no captions"),
        ({"v2": []}, ["v2"], r"json: video 'v2' of split 'trn' has no captions"),
        ({"v2": ["x", " "]}, ["v2"], r"json: v2: captions: one of them is blank"),
        ({"v2": [3]}, ["v2"], r"json: v2\.0: Input should be a valid string"),
        ({"v2": "x"}, ["v2"], r"json: v2: Input should be a valid list"),
        ([], ["v2"], r"json: the line: Input should be a valid dictionary"),
        (CAPTIONS, ["v2", "v2"], r"trn_names\.npy, name 2: 'v2' was already name 1"),
        (CAPTIONS, ["v2", " "], r"trn_names\.npy, name 2: it is blank"),
        (CAPTIONS, [], r"trn_names\.npy: expected str with 1 axes, found float64 \[0\]"),
    ],
)
def test_what_is_odd_is_named(
    tmp_path: Path, captions: Any, names: list[str], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        read_captions(write(tmp_path, captions, trn=names))


def test_a_video_in_two_splits_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"ref_captions\.json: v2: image 'v2' appears twice"):
        read_captions(write(tmp_path, trn=["v2"], val=["v2"]))


def test_names_as_python_objects_are_refused_with_the_cure(tmp_path: Path) -> None:
    root = write(tmp_path)
    path = root / "public_split" / "trn_names.npy"
    np.save(path, np.array(["v2", "v/1"], object), allow_pickle=True)
    with pytest.raises(InputError, match=r"Python objects.*If you trust.*astype\('str'\)"):
        read_captions(root)
    np.save(path, np.load(path, allow_pickle=True).astype("str"))  # what the message says
    assert [video.image_id for video in read_captions(root)] == ["v2", "v/1"]


def test_names_may_be_bytes_and_captions_must_be_there(tmp_path: Path) -> None:
    root = write(tmp_path)
    np.save(root / "public_split" / "val_names.npy", np.array([], str))
    with pytest.raises(InputError, match=r"val_names\.npy holds no name"):
        read_captions(root, "val")
    np.save(root / "public_split" / "val_names.npy", np.array([b"v2"]))
    assert read_captions(root, "val") == [CaptionedPhoto("v2", "val", ("a dog runs",))]
    (root / "annotation" / "RET" / "ref_captions.json").unlink()
    with pytest.raises(InputError, match=r"ref_captions\.json: cannot be read: No such file"):
        read_captions(root, "val")
