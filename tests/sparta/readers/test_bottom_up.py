"""Bottom-up attention's TSVs, LXMERT's, and the .npz files of bottom-up-attention.pytorch."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sparta.errors import InputError
from sparta.features.record import SKIPPED
from sparta.readers.base import RegionLimit
from sparta.readers.bottom_up import CONVERSION
from sparta.readers.registry import fitting, import_features, open_reader
from tests.sparta.readers.samples import (
    FEATURES,
    encode,
    write,
    write_npz,
    write_vocabulary,
)
from tests.sparta.readers.samples import bottom_up_line as line


def test_lines_as_python_2_and_python_3_end_and_wrap_them(tmp_path: Path) -> None:
    plain = line("a")
    cells = plain.strip().split("\t")
    wrapped = "\t".join([*cells[:4], f"b'{cells[4]}'", f"b'{cells[5]}'"])
    path = write(tmp_path / "a.tsv", [plain.replace("\n", "\r\n"), "b" + wrapped[1:] + "\r\n"])
    reader = open_reader("bottom-up", [path])
    assert reader[1].features.tolist() == reader[0].features.tolist() == FEATURES.tolist()
    assert reader[1].boxes.tolist() == reader[0].boxes.tolist()


def test_a_malformed_first_line_does_not_decide_the_dimension(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", [line("b", FEATURES.ravel()[:7]), line("a")])
    reader = open_reader("bottom-up", [path])
    assert reader.source.dimension == 3
    assert reader[0].features.tolist() == FEATURES.tolist()
    with pytest.raises(InputError, match=r"a\.tsv, line 1: features: expected 3 rows of 3"):
        reader[1]
    write(path, [line("a", width=1), line("b", width=2)])
    with pytest.raises(InputError, match=r"a\.tsv, line 1: boxes, row 1"):
        open_reader("bottom-up", [path])


def test_a_whole_file_in_half_precision_is_named(tmp_path: Path) -> None:
    """As float32 it would have half the dimension, and other numbers."""
    features = np.random.default_rng(0).normal(size=(3, 512)).clip(0)
    path = write(tmp_path / "a.tsv", [line("a", features)])
    assert open_reader("bottom-up", [path]).source.dimension == 512
    lines = [line(key).rpartition("\t")[0] + f"\t{encode(features, '<f2')}\n" for key in "ab"]
    write(path, lines)
    with pytest.raises(InputError, match=r"line 1: features: expected float32 .* like float16"):
        open_reader("bottom-up", [path])


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


def test_the_pickle_is_left_alone(tmp_path: Path) -> None:
    image = open_reader("bottom-up-npz", [write_npz(tmp_path, info=np.array(Trap()))])[0]
    assert image.boxes.tolist() == [[0.25, 0.25, 0.75, 1], [0, 0, 1, 1], [0.125, 0.25, 0.125, 0.75]]
    with pytest.raises(InputError, match="objects_id: missing"):
        open_reader("bottom-up-npz", [tmp_path], limit=RegionLimit(1, "confident"))


def test_classes_stand_in_the_pickle_until_it_is_converted(tmp_path: Path) -> None:
    folder = write_npz(tmp_path / "in", info=INFO)
    vocabulary = write_vocabulary(tmp_path)
    message = r"a\.npz: objects_id: missing\. .* If you trust the files, convert them once"
    with pytest.raises(InputError, match=message) as error:
        open_reader("bottom-up-npz", [folder], vocabulary=vocabulary)
    _, conversion = str(error.value).split("\n\n")
    assert conversion == CONVERSION.replace("FOLDER", str(folder))
    exec(conversion, {})
    assert set(np.load(folder / "a.npz")) == {"x", "bbox", "num_bbox", "image_h", "image_w", *SEEN}
    image = open_reader("bottom-up-npz", [folder], vocabulary=vocabulary)[0]
    assert image.labels == ("dog", "yolk", "traffic light")
    assert image.attributes == ("brown", "gray", "")
    assert image.features.tolist() == FEATURES.tolist()


def test_a_detector_without_attributes_is_converted_too(tmp_path: Path) -> None:
    info = {key: value for key, value in INFO.items() if not key.startswith("attrs")}
    folder = write_npz(tmp_path / "in", info=info)
    exec(CONVERSION.replace("FOLDER", str(folder)), {})
    image = open_reader("bottom-up-npz", [folder], vocabulary=write_vocabulary(tmp_path))[0]
    assert (image.labels, image.attributes) == (("dog", "yolk", "traffic light"), ("",) * 3)


def test_a_damaged_first_file_does_not_decide_the_dimension(tmp_path: Path) -> None:
    folder = write_npz(tmp_path, "b")
    (folder / "a.npz").write_bytes(b"PK\3\4cut")
    assert fitting([folder]) == []
    reader = open_reader("bottom-up-npz", [folder])
    with pytest.raises(InputError, match=r"a\.npz is damaged or no \.npz file: File is not a zip"):
        reader[0]
    assert reader[1].features.tolist() == FEATURES.tolist()
    (folder / "b.npz").unlink()
    with pytest.raises(InputError, match=r"a\.npz is damaged"):
        open_reader("bottom-up-npz", [folder])


def test_a_file_whose_name_is_no_text_is_skipped_like_others(tmp_path: Path) -> None:
    folder = write_npz(tmp_path / "in", "b")
    try:
        write_npz(folder, os.fsdecode(b"a\xff"))
    except OSError:
        pytest.skip("this file system takes UTF-8 alone")
    store = import_features(
        open_reader("bottom-up-npz", [folder]), tmp_path / "store", skip_bad=True
    )
    assert store.ids == ["b"]
    assert r"a\\xff.npz: the file name is not UTF-8" in (tmp_path / "store" / SKIPPED).read_text()
