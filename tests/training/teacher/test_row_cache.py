from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from training.teacher.open import Rows, cached_rows

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


def rows(blocks: Blocks, key: str = "a") -> Rows:
    return Rows("photos", [key], (7, 5), np.float16, blocks)


def test_an_array_is_computed_once(tmp_path: Path) -> None:
    blocks, seen = Blocks(), []
    for _ in range(2):
        found = cached_rows(tmp_path, rows(blocks), lambda done, total: seen.append((done, total)))
        assert isinstance(found, np.memmap)
        assert np.array_equal(found, WHOLE)
    assert blocks.starts == [0]
    assert seen == [(2, 7), (4, 7), (6, 7), (7, 7)]
    cached_rows(tmp_path, rows(blocks, "b"), print)
    assert blocks.starts == [0, 0]  # another key, another array


@pytest.mark.parametrize("torn", [0, 3])
def test_an_interrupted_computation_goes_on(tmp_path: Path, torn: int) -> None:
    with pytest.raises(RuntimeError, match="killed"):
        cached_rows(tmp_path, rows(Blocks(fail_at=4)), print)
    part = next(tmp_path.glob("*.part"))
    part.write_bytes(part.read_bytes() + b"x" * torn)  # half a row, as a killed process leaves
    blocks = Blocks()
    assert np.array_equal(cached_rows(tmp_path, rows(blocks), print), WHOLE)
    assert blocks.starts == [4]
    assert not list(tmp_path.glob("*.part"))
