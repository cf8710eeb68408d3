import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from sparta.captions.read import CaptionedPhoto, read_captions
from sparta.errors import InputError
from sparta.features.readers.import_store import import_features
from sparta.features.readers.precomp import PrecompReader


def write(folder: Path, split: str, captions: Sequence[str], ids: Sequence[str]) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / f"{split}_caps.txt").write_text("".join(f"{line}\n" for line in captions))
    (folder / f"{split}_ids.txt").write_text("".join(f"{line}\n" for line in ids))
    return folder


def lines(count: int) -> list[str]:
    return [f"caption {number}" for number in range(count)]


def photo(image_id: str, split: str, start: int, count: int = 5) -> CaptionedPhoto:
    return CaptionedPhoto(image_id, split, tuple(lines(start + count)[start:]))


@pytest.mark.parametrize("repeat", [1, 5])
def test_ids_may_be_of_photos_or_of_captions(tmp_path: Path, repeat: int) -> None:
    ids = ["42"] * repeat + ["7"] * repeat
    folder = write(tmp_path, "dev", lines(10), ids)
    assert read_captions(folder, "dev") == [photo("42", "dev", 0), photo("7", "dev", 5)]


def test_dev_may_be_cut_to_its_first_photos(tmp_path: Path) -> None:
    folder = write(tmp_path, "dev", lines(15), ["3", "2", "1"])
    assert read_captions(folder, "dev:2") == [photo("3", "dev", 0), photo("2", "dev", 5)]
    assert len(read_captions(folder, "dev:1000")) == 3
    for wrong in ("dev:", "dev:0", "dev:-1", "dev:all"):
        with pytest.raises(InputError, match=f"split '{wrong}': expected a number of images"):
            read_captions(folder, wrong)


def test_all_splits_are_read_where_none_is_named(tmp_path: Path) -> None:
    write(tmp_path, "train", lines(5), ["1"])
    folder = write(tmp_path, "dev", lines(5), ["2"])
    assert read_captions(folder) == [photo("2", "dev", 0), photo("1", "train", 0)]
    with pytest.raises(InputError, match=r"no split 'test'; the folder has \['dev', 'train'\]"):
        read_captions(folder, "test")


def test_another_number_of_captions_may_be_stated(tmp_path: Path) -> None:
    folder = write(tmp_path, "train", lines(4), ["1", "2"])
    found = read_captions(folder, captions_per_photo=2)
    assert found == [photo("1", "train", 0, 2), photo("2", "train", 2, 2)]
    with pytest.raises(InputError, match=r"train_caps\.txt: expected a multiple of 5 lines, .* 4$"):
        read_captions(folder)


def test_captions_end_at_line_feeds_alone(tmp_path: Path) -> None:
    captions = ["a dog \u2028 at the sea", "café\x0b", "x", "y", "z"]
    folder = write(tmp_path, "train", captions, ["1"])
    assert read_captions(folder)[0].captions == tuple(captions)


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (["1", "2", "3"], "dev_ids.txt: expected 2 lines, one for each image, or a multiple of"),
        ([], "dev_ids.txt: expected 2 lines"),
        (
            ["1"] * 4 + ["2"] * 6,
            "dev_ids.txt, line 1: expected 5 lines of one image, found '1' and",
        ),
        (["1"] * 10, "dev_ids.txt, line 6: image '1' was already in line 1"),
        (["1", "1"], "dev_ids.txt, line 2: image '1' was already in line 1"),
        (["1", " "], "dev_ids.txt, line 2: the id is blank"),
    ],
)
def test_odd_ids_are_named(tmp_path: Path, ids: list[str], message: str) -> None:
    folder = write(tmp_path, "dev", lines(10), ids)
    with pytest.raises(InputError, match=re.escape(f"{folder / message}")):
        read_captions(folder, "dev")


def test_odd_captions_are_named(tmp_path: Path) -> None:
    folder = write(tmp_path, "dev", [*lines(8), "", "x"], ["1", "2"])
    with pytest.raises(InputError, match=r"dev_caps\.txt, lines 6 to 10: captions: one of them is"):
        read_captions(folder, "dev")
    (folder / "dev_caps.txt").write_bytes(b"caf\xe9\n" * 10)
    with pytest.raises(InputError, match=r"dev_caps\.txt: not UTF-8"):
        read_captions(folder, "dev")
    (folder / "dev_caps.txt").write_bytes(b"")
    with pytest.raises(InputError, match=r"dev_caps\.txt: expected a multiple of 5 lines"):
        read_captions(folder, "dev")
    (folder / "dev_ids.txt").unlink()
    (folder / "dev_caps.txt").write_text("x\n" * 5)
    with pytest.raises(InputError, match=r"dev_ids\.txt: cannot be read: No such file"):
        read_captions(folder, "dev")


def test_a_photo_in_two_splits_is_named_unless_one_is_asked_for(tmp_path: Path) -> None:
    write(tmp_path, "test", lines(5), ["1"])
    folder = write(tmp_path, "testall", lines(10), ["1", "2"])
    assert len(read_captions(folder, "testall")) == 2
    with pytest.raises(
        InputError, match=r"testall_caps\.txt, lines 1 to 5: image '1' appears twice"
    ):
        read_captions(folder)


def test_another_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"neither \*_caps\.txt nor public_split"):
        read_captions(tmp_path)


def test_captions_and_features_have_the_same_ids(tmp_path: Path) -> None:
    """Whichever convention the ids are in, every caption finds its own photo's features."""
    features = np.random.default_rng(0).normal(size=(3, 4, 6)).astype(np.float32)
    folder = write(tmp_path / "in", "dev", lines(15), ["10"] * 5 + ["9"] * 5 + ["8"] * 5)
    np.save(folder / "dev_ims.npy", features)
    store = import_features(PrecompReader(folder, ["dev"]), tmp_path / "store")
    for found, wanted in zip(read_captions(folder, "dev"), features, strict=True):
        image = store[store.index(found.image_id)]
        np.testing.assert_array_equal(image.features, wanted.astype(np.float16))


def test_a_byte_order_mark_and_empty_last_lines_are_left_out(tmp_path: Path) -> None:
    folder = write(tmp_path, "dev", lines(10), ["3", "2"])
    for path in folder.iterdir():
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes() + b"\r\n\n")
    assert read_captions(folder) == [photo("3", "dev", 0), photo("2", "dev", 5)]
