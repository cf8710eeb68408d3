import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparta.errors import InputError
from sparta.features.readers.bottom_up import fits as fits_bottom_up
from sparta.features.readers.import_store import import_features
from sparta.features.readers.lxmert import LxmertReader, fits
from sparta.features.readers.parsing.region_limit import RegionLimit
from tests.sparta.features.readers.bottom_up_files import FEATURES, write
from tests.sparta.features.readers.bottom_up_files import line as bottom_up_line
from tests.sparta.features.readers.lxmert_files import line
from tests.sparta.features.readers.mutations import mutated, mutated_cells, read_all
from tests.sparta.features.readers.vocabulary_files import write_vocabulary


def test_reads_features_boxes_size_labels_and_attributes(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", [line("7")])
    vocabulary = write_vocabulary(tmp_path / "genome")
    reader = LxmertReader([path], ".jpg", "resnet101", vocabulary=vocabulary)
    image = reader[0]
    assert (reader.source.kind, reader.source.dimension) == ("region", 3)
    assert reader.source.weights == "resnet101"
    assert image.image_id == "7.jpg"
    assert image.features.tolist() == FEATURES.tolist()
    assert image.boxes.tolist() == [[0.25, 0.25, 0.75, 1], [0, 0, 1, 1], [0.125, 0.25, 0.125, 0.75]]
    assert image.labels == ("buoy", "yolk", "traffic light")
    assert image.attributes == ("red", "gray", "")  # the detector is not sure of the last one
    assert (image.width, image.height) == (64, 32)
    assert set(reader.files) > {path, vocabulary / "objects_vocab.txt"}


def test_without_a_vocabulary_there_are_no_labels(tmp_path: Path) -> None:
    image = LxmertReader([write(tmp_path / "a.tsv", [line("7")])])[0]
    assert (image.labels, image.attributes) == (("",) * 3, ("",) * 3)
    assert image.features.tolist() == FEATURES.tolist()


def test_regions_are_chosen_with_all_that_belongs_to_them(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", [line("7")])
    vocabulary = write_vocabulary(tmp_path / "genome")
    limit = RegionLimit(2, "confident")
    reader = LxmertReader([path], limit=limit, vocabulary=vocabulary)
    assert reader[0].features.tolist() == FEATURES[[2, 0]].tolist()
    assert reader[0].boxes.tolist() == [[0.125, 0.25, 0.125, 0.75], [0.25, 0.25, 0.75, 1]]
    assert (reader[0].labels, reader[0].attributes) == (("traffic light", "buoy"), ("", "red"))
    assert reader.source.extra == {"regions": 2, "keep": "confident"}
    assert LxmertReader([path], limit=RegionLimit(1))[0].features.tolist() == [FEATURES[0].tolist()]


def test_several_files_are_put_together_by_id(tmp_path: Path) -> None:
    train = write(tmp_path / "train.tsv", [line("9"), line("11")])
    val = write(tmp_path / "val.tsv", [line("10"), line("9")])
    with pytest.raises(InputError, match=r"val\.tsv, line 2: image '9' was .*train\.tsv, line 1"):
        import_features(LxmertReader([train, val]), tmp_path / "store")
    store = import_features(LxmertReader([train, val]), tmp_path / "store", skip_bad=True)
    assert store.ids == ["10", "11", "9"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (line("b", [2, 0]), "objects_id: expected 3 rows of 1 numbers of 8 bytes, found 16 bytes"),
        (line("b", sure=[0.5]), "objects_conf: expected 3 rows of 1 numbers of 4 bytes, found 4"),
        (line("b", attributes=[0] * 4), "attrs_id: expected 3 rows of 1 numbers of 8 bytes"),
        (line("b", surely=[0.5]), "attrs_conf: expected 3 rows of 1 numbers of 4 bytes, found 4"),
        (line("b", sure=[0.5, np.nan, 0]), "objects_conf, row 2: expected 0 to 1, found nan"),
        (line("b", surely=[0.5, 0, 2]), "attrs_conf, row 3: expected 0 to 1, found 2.0"),
        (line("b", [0, 0, 3]), "objects_id, row 3: expected 0 to 2, the lines of"),
        (line("b", attributes=[0, -1, 0]), "attrs_id, row 2: expected 0 to 1, the lines of"),
        (line("b", height="tall"), "img_h: expected 1 or more, found 'tall'"),
        (line("b", height=16), "boxes, row 1: expected x1, y1, x2, y2 in pixels, found"),
        (line("b", count=2), "boxes: expected 2 rows of 4 numbers of 4 bytes, found 48 bytes"),
        (bottom_up_line("b"), "expected 10 columns (img_id, img_h, img_w, objects_id,"),
    ],
)
def test_a_malformed_line_is_named(tmp_path: Path, text: str, message: str) -> None:
    path = write(tmp_path / "a.tsv", [line("a"), text])
    reader = LxmertReader([path], vocabulary=write_vocabulary(tmp_path))
    with pytest.raises(InputError, match="^" + re.escape(f"{path}, line 2: {message}")):
        reader[1]


def test_knows_its_files_by_the_first_line(tmp_path: Path) -> None:
    lxmert = write(tmp_path / "lxmert.tsv", [line("a")])
    bottom_up = write(tmp_path / "bottom_up.tsv", [bottom_up_line("a")])
    assert [fits(lxmert), fits(bottom_up)] == [True, False]
    assert [fits_bottom_up(lxmert), fits_bottom_up(bottom_up)] == [False, True]


CONTENT = "".join(line(key) for key in ("a", "c", "b")).encode()


@given(
    content=mutated(CONTENT) | mutated_cells(CONTENT),
    by=st.sampled_from(["first", "confident"]),
    labels=st.booleans(),
)
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_whatever_changes_in_a_file_is_noticed_or_harmless(
    tmp_path: Path, content: bytes, by: Any, labels: bool
) -> None:
    path = tmp_path / "a.tsv"
    path.write_bytes(content)
    fits(path)
    vocabulary = write_vocabulary(tmp_path) if labels else None
    limit = RegionLimit(2, by)
    images = read_all(lambda: LxmertReader([path], limit=limit, vocabulary=vocabulary))
    known = {"yolk", "traffic light", "buoy"} if labels else {""}
    assert all(set(image.labels) <= known for image in images)


def test_what_has_not_changed_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_bytes(CONTENT)
    assert len(read_all(lambda: LxmertReader([tmp_path / "a.tsv"]))) == 3
