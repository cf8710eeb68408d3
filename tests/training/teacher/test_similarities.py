"""What teachers compute: similarities, nearest sentences, and arrays that are kept."""

from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from sparta.errors import InputError
from training.teacher.open import Rows, cached_rows
from training.teacher.similarities import (
    Similarities,
    Teacher,
    pool_sentences,
    read_sentences,
)

RNG = np.random.default_rng(0)
SENTENCES = RNG.standard_normal((30, 6)).astype(np.float16)
PHOTOS = RNG.standard_normal((20, 1, 6)).astype(np.float16)
EVERY = np.arange(30), np.arange(20)


def reference(sentences: np.ndarray, photos: np.ndarray) -> np.ndarray:
    """Standardised inner products, one at a time."""
    found = np.zeros((len(sentences), len(photos)))
    for i, text in enumerate(sentences.astype(np.float64)):
        for j, views in enumerate(photos.astype(np.float64)):
            found[i, j] = max(text @ view for view in views)
    means = [text @ photos.astype(np.float64).mean(axis=(0, 1)) for text in sentences]
    centred = found - np.array(means)[:, None]
    return centred / np.sqrt((centred**2).mean())


def test_similarities_are_standardised_inner_products() -> None:
    similar = Similarities("a", SENTENCES, PHOTOS)
    expected = reference(SENTENCES, PHOTOS)
    assert np.allclose(similar.between(*EVERY), expected, atol=1e-4)
    assert np.allclose(expected.mean(axis=1), 0)  # of one view, each sentence's mean is 0
    chosen = np.array([7, 2, 7]), np.array([3, 19])
    assert np.allclose(similar.between(*chosen), expected[chosen[0]][:, chosen[1]], atol=1e-4)


def test_a_teacher_is_the_mean_of_models() -> None:
    one, two = Similarities("a", SENTENCES, PHOTOS), Similarities("b", SENTENCES, -(PHOTOS**2))
    teacher = deepcopy(Teacher([one, two]))
    assert teacher.parts[0] is one  # averaging the weights copies no array
    expected = (one.between(*EVERY) + two.between(*EVERY)) / 2
    assert np.allclose(teacher.between(*EVERY), expected, atol=1e-5)
    some = torch.tensor([4, 5, 4]), torch.tensor([1, 0])
    assert np.allclose(teacher(*some).numpy(), expected[[4, 5, 4]][:, [1, 0]], atol=1e-5)


def test_a_teacher_without_an_opinion_is_refused() -> None:
    with pytest.raises(InputError, match="blind gives every photo the same similarity"):
        Similarities("blind", np.zeros_like(SENTENCES), PHOTOS)


def test_lines_are_sentences(tmp_path: Path) -> None:
    path = tmp_path / "sentences.txt"
    path.write_bytes("a dog \r\n\n  \nein Hündchen\na dog".encode())
    assert read_sentences(path) == ["a dog", "ein Hündchen", "a dog"]
    path.write_bytes(b"\xef\xbb\xbfa dog\n")  # a byte order mark
    assert read_sentences(path) == ["a dog"]
    path.write_bytes(b"a\xff")
    with pytest.raises(InputError, match=r"is not UTF-8 text \(invalid start byte at byte 1\)"):
        read_sentences(path)


def test_equal_sentences_share_a_number() -> None:
    pool = pool_sentences([("x", "y"), (), ("y", "y")], ["z", "x", "z"])
    assert pool.texts == ["x", "y", "z"]
    assert pool.captions == [[0, 1], [], [1, 1]]


WHOLE = np.arange(35, dtype=np.float16).reshape(7, 5)


class Blocks:
    """Two rows at a time; `starts` records where each computation began."""

    def __init__(self, fail_at: int = 99) -> None:
        self.starts: list[int] = []
        self.fail_at = fail_at

    def __call__(self, start: int) -> Iterator[NDArray[Any]]:
        self.starts.append(start)
        for row in range(start, 7, 2):
            if row >= self.fail_at:
                raise RuntimeError("killed")
            yield WHOLE[row : row + 2]


def kept_rows(blocks: Blocks, key: str = "a") -> Rows:
    return Rows("photos", [key], (7, 5), np.float16, blocks)


@pytest.mark.parametrize("torn", [0, 3])
def test_an_interrupted_computation_goes_on(tmp_path: Path, torn: int) -> None:
    with pytest.raises(RuntimeError, match="killed"):
        cached_rows(tmp_path, kept_rows(Blocks(fail_at=4)), print)
    part = next(tmp_path.glob("*.part"))
    part.write_bytes(part.read_bytes() + b"x" * torn)  # half a row, as a killed process leaves
    blocks = Blocks()
    assert np.array_equal(cached_rows(tmp_path, kept_rows(blocks), print), WHOLE)
    assert blocks.starts == [4]
    assert not list(tmp_path.glob("*.part"))
