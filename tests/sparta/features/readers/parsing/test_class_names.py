from pathlib import Path

import numpy as np
import pytest

from sparta.errors import InputError
from sparta.features.readers.parsing.class_names import Classes, Vocabularies, Vocabulary
from tests.sparta.features.readers.vocabulary_files import write_vocabulary


def classes(
    objects: list[int], attributes: list[int] | None = None, confidences: float = 0.5
) -> Classes:
    sure = np.full(len(objects), confidences, np.float32)
    if attributes is None:
        return Classes("f.tsv, line 3", np.array(objects), sure)
    return Classes("f.tsv, line 3", np.array(objects), sure, np.array(attributes), sure)


def test_the_first_of_synonyms_is_the_word(tmp_path: Path) -> None:
    found = Vocabularies(write_vocabulary(tmp_path)).words(classes([1, 0, 2], [1, 0, 0]))
    assert found == (("traffic light", "yolk", "buoy"), ("red", "gray", "gray"))


def test_an_attribute_the_detector_is_not_sure_of_is_none(tmp_path: Path) -> None:
    vocabularies = Vocabularies(write_vocabulary(tmp_path))
    sure = np.array([0.1, 0.11, 0.0])
    found = Classes("f", np.zeros(3, int), np.ones(3), np.array([1, 1, 0]), sure)
    assert vocabularies.words(found) == (("yolk",) * 3, ("", "red", ""))


def test_a_detector_may_know_no_attributes(tmp_path: Path) -> None:
    assert Vocabularies(write_vocabulary(tmp_path)).words(classes([2])) == (("buoy",), ("",))


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (classes([0, 3]), r"objects_id, row 2: expected 0 to 2, the lines of .*objects_vocab"),
        (classes([0, -1]), r"objects_id, row 2: expected 0 to 2, .* found -1"),
        (classes([0], [2]), r"attrs_id, row 1: expected 0 to 1, .*attributes_vocab.* found 2"),
    ],
)
def test_a_class_without_a_word_is_named(tmp_path: Path, found: Classes, message: str) -> None:
    vocabularies = Vocabularies(write_vocabulary(tmp_path))
    with pytest.raises(InputError, match=r"^f\.tsv, line 3: " + message):
        vocabularies.words(found)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "objects_vocab.txt is empty"),
        (b"a\n\nb", "objects_vocab.txt, line 2: the word is blank"),
        (b"a\n,b", "objects_vocab.txt, line 2: the word is blank"),
        (b"\xff", "objects_vocab.txt: not UTF-8"),
    ],
)
def test_an_odd_file_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "objects_vocab.txt"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        Vocabulary(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    (write_vocabulary(tmp_path) / "attributes_vocab.txt").unlink()
    with pytest.raises(InputError, match=r"attributes_vocab\.txt: cannot be read: No such file"):
        Vocabularies(tmp_path)


def test_reads_the_published_vocabularies(shared: Path) -> None:
    folder = shared / "vocab"
    if not folder.is_dir():
        pytest.skip(f"vocabularies are not installed: {folder} is absent")
    last = classes([1599, 0], [0, 399])
    assert Vocabularies(folder).words(last)[0] == ("buoy", "yolk")
    assert Vocabularies(folder).words(last)[1][0] == "gray"
    with pytest.raises(InputError, match="expected 0 to 1599"):
        Vocabularies(folder).words(classes([1600]))


@pytest.mark.parametrize("value", [np.nan, -0.1, 1.1, np.inf])
def test_an_odd_confidence_is_named(value: float) -> None:
    ids, good, bad = np.zeros(2, int), np.array([0.0, 1.0]), np.array([0.5, value])
    with pytest.raises(InputError, match=r"^f: objects_conf, row 2: expected 0 to 1, found"):
        Classes("f", ids, bad)
    with pytest.raises(InputError, match=r"^f: attrs_conf, row 2: expected 0 to 1, found"):
        Classes("f", ids, good, ids, bad)
    Classes("f", ids, good, ids, good)


def test_the_confidence_of_attributes_may_be_chosen(tmp_path: Path) -> None:
    vocabularies = Vocabularies(write_vocabulary(tmp_path), above=0.6)
    assert vocabularies.words(classes([0], [1], 0.5))[1] == ("",)
    assert vocabularies.words(classes([0], [1], 0.7))[1] == ("red",)


def test_a_byte_order_mark_and_an_empty_last_line_are_no_classes(tmp_path: Path) -> None:
    path = tmp_path / "objects_vocab.txt"
    path.write_bytes(b"\xef\xbb\xbfyolk\r\nbuoy\r\n\r\n")
    assert Vocabulary(path).words == ["yolk", "buoy"]
