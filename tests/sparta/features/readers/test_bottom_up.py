import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparta.errors import InputError
from sparta.features.readers.bottom_up import BottomUpReader, fits
from sparta.features.readers.import_store import import_features
from sparta.features.readers.parsing.region_limit import RegionLimit
from tests.sparta.features.readers.bottom_up_files import (
    BOXES,
    FEATURES,
    changed,
    encode,
    line,
    write,
)
from tests.sparta.features.readers.mutations import mutated, mutated_cells, read_all


def test_reads_features_boxes_and_size(tmp_path: Path) -> None:
    reader = BottomUpReader([write(tmp_path / "a.tsv", [line("7")])], ".jpg", name="resnet101")
    image = reader[0]
    assert (reader.source.kind, reader.source.dimension) == ("region", 3)
    assert reader.source.weights == "resnet101"
    assert image.image_id == "7.jpg"
    assert image.features.tolist() == FEATURES.tolist()
    assert image.boxes.tolist() == [[0.25, 0.25, 0.75, 1], [0, 0, 1, 1], [0.125, 0.25, 0.125, 0.75]]
    assert image.locations[0].tolist() == [0.25, 0.25, 0.75, 1, 0.5, 0.75]
    assert (image.labels, image.attributes) == (("",) * 3, ("",) * 3)
    assert (image.width, image.height) == (64, 32)


def test_lines_as_python_2_and_python_3_end_and_wrap_them(tmp_path: Path) -> None:
    plain = line("a")
    cells = plain.strip().split("\t")
    wrapped = "\t".join([*cells[:4], f"b'{cells[4]}'", f"b'{cells[5]}'"])
    path = write(tmp_path / "a.tsv", [plain.replace("\n", "\r\n"), "b" + wrapped[1:] + "\r\n"])
    reader = BottomUpReader([path])
    assert reader[1].features.tolist() == reader[0].features.tolist() == FEATURES.tolist()
    assert reader[1].boxes.tolist() == reader[0].boxes.tolist()


def test_several_files_are_put_together_by_id(tmp_path: Path) -> None:
    train = write(
        tmp_path / "train.tsv.0", [line("9"), line("11", FEATURES[:1], BOXES[:1], count=1)]
    )
    val = write(tmp_path / "val.tsv", [line("10", FEATURES * 2)])
    store = import_features(BottomUpReader([train, val]), tmp_path / "store")
    assert store.ids == ["10", "11", "9"]
    assert store[0].features.tolist() == (FEATURES * 2).tolist()
    assert [len(image.features) for image in store] == [3, 1, 3]


def test_the_first_regions_can_be_chosen_but_not_the_surest(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", [line("a")])
    reader = BottomUpReader([path], limit=RegionLimit(2))
    assert reader[0].features.tolist() == FEATURES[:2].tolist()
    assert reader.source.extra == {"regions": 2, "keep": "first"}
    with pytest.raises(InputError, match="TSVs of bottom-up attention hold no confidences"):
        BottomUpReader([path], limit=RegionLimit(2, "confident"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (line("b")[:-10], "features: "),
        (line("b")[:-9] + "*" + line("b")[-8:], "features: not base64"),
        ("b\t64\n", "expected 6 columns (image_id, image_w, image_h, num_boxes, boxes, features)"),
        (line("b").replace("\n", "\tx\n"), "expected 6 columns"),
        (line("b", width="wide"), "image_w: expected 1 or more, found 'wide'"),
        (line("b", height=0), "image_h: expected 1 or more, found '0'"),
        (line("b", height="9" * 5000), "image_h: expected at most 999999999, found '9999"),
        (line("b", count=10**9), "num_boxes: expected at most 999999999, found '1000000000'"),
        (line("b", count=-3), "num_boxes: expected 1 or more, found '-3'"),
        (line("b", count=2), "boxes: expected 2 rows of 4 numbers of 4 bytes, found 48 bytes"),
        (line("b", FEATURES[:2]), "features: expected 3 rows of 3 numbers of 4 bytes, found 24"),
        (line("b", FEATURES[:, :2]), "features: expected 3 rows of 3 numbers of 4 bytes, found 24"),
        (line("b", changed(FEATURES, 1, 2, np.nan)), "features, row 2: expected finite numbers"),
        (line("b", changed(FEATURES, 2, 2, 0)), "features, row 3: all its numbers are 0"),
        (line("b", boxes=changed(BOXES, 0, 2, np.nan)), "boxes, row 1: expected x1, y1, x2, y2"),
        (line("b", boxes=changed(BOXES, 0, 2, 15)), "boxes, row 1: expected x1, y1, x2, y2"),
        (line("b", width=32, height=64), "boxes, row 1: expected x1, y1, x2, y2 in pixels, found"),
    ],
)
def test_a_malformed_line_is_named(tmp_path: Path, text: str, message: str) -> None:
    path = write(tmp_path / "a.tsv", [line("a"), text])
    reader = BottomUpReader([path])
    with pytest.raises(InputError, match="^" + re.escape(f"{path}, line 2: {message}")):
        reader[1]


def test_a_malformed_first_line_does_not_decide_the_dimension(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", [line("b", FEATURES.ravel()[:7]), line("a")])
    reader = BottomUpReader([path])
    assert reader.source.dimension == 3
    assert reader[0].features.tolist() == FEATURES.tolist()
    with pytest.raises(InputError, match=r"a\.tsv, line 1: features: expected 3 rows of 3"):
        reader[1]
    write(path, [line("a", width=1), line("b", width=2)])
    with pytest.raises(InputError, match=r"a\.tsv, line 1: boxes, row 1"):
        BottomUpReader([path])


def test_an_image_twice_is_named_where_it_stands_again(tmp_path: Path) -> None:
    train = write(tmp_path / "train.tsv", [line("b"), line("a"), line("b")])
    val = write(tmp_path / "val.tsv", [line("a")])
    reader = BottomUpReader([train, val])
    assert reader.ids == ["a", "a", "b", "b"]
    assert (reader[0].image_id, reader[2].image_id) == ("a", "b")
    with pytest.raises(InputError, match=r"val\.tsv, line 1: image 'a' was .*train\.tsv, line 2"):
        reader[1]
    with pytest.raises(InputError, match=r"train\.tsv, line 3: image 'b' was .*train\.tsv, line 1"):
        reader[3]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a\.tsv: cannot be read: No such file"):
        BottomUpReader([tmp_path / "a.tsv"])


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (line("a"), True),
        (line("a").replace("\n", "\r\n"), True),
        ("a\t2\tAAAA\n", False),
        ("a\tb\tc\td\te\tf\n", False),
        ("", False),
    ],
)
def test_knows_its_files_by_the_first_line(tmp_path: Path, content: str, expected: bool) -> None:
    assert fits(write(tmp_path / "a.tsv", [content])) == expected
    assert not fits(tmp_path)
    assert not fits(tmp_path / "absent")


CONTENT = "".join(line(key) for key in ("a", "c", "b")).encode()


@given(content=mutated(CONTENT) | mutated_cells(CONTENT), limit=st.sampled_from([None, 2]))
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_whatever_changes_in_a_file_is_noticed_or_harmless(
    tmp_path: Path, content: bytes, limit: int | None
) -> None:
    path = tmp_path / "a.tsv"
    path.write_bytes(content)
    fits(path)
    read_all(lambda: BottomUpReader([path], limit=RegionLimit(limit)))


def test_what_has_not_changed_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_bytes(CONTENT)
    assert len(read_all(lambda: BottomUpReader([tmp_path / "a.tsv"]))) == 3


def test_a_byte_order_mark_and_an_empty_last_line_are_no_part_of_the_lines(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", ["\ufeff", line("7"), line("8"), "\n"])
    assert fits(path)
    assert BottomUpReader([path]).ids == ["7", "8"]
    assert BottomUpReader([path])[0].features.tolist() == FEATURES.tolist()


def test_a_whole_file_in_half_precision_is_named(tmp_path: Path) -> None:
    """As float32 it would have half the dimension, and other numbers."""
    features = np.random.default_rng(0).normal(size=(3, 512)).clip(0)
    path = write(tmp_path / "a.tsv", [line("a", features)])
    assert BottomUpReader([path]).source.dimension == 512
    lines = [line(key).rpartition("\t")[0] + f"\t{encode(features, '<f2')}\n" for key in "ab"]
    write(path, lines)
    with pytest.raises(InputError, match=r"line 1: features: expected float32 .* like float16"):
        BottomUpReader([path])


def test_relative_boxes_are_named(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", [line("a"), line("b", boxes=BOXES / 64)])
    with pytest.raises(InputError, match=r"line 2: boxes: expected x1, y1, x2, y2 in pixels"):
        BottomUpReader([path])[1]
