"""Which superblocks have a document that may be found: the others need not be looked at."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar
from weakref import ref

import numpy as np
from numpy.typing import NDArray

from indexer.columns.kernel import compiled
from indexer.columns.layout import SUPERBLOCK

REMEMBERED = 16  # filters

Made = TypeVar("Made")


class Remembered(Generic[Made]):
    """What was made of the masks used last, if these cannot be changed. Safe from any thread."""

    def __init__(self) -> None:
        self._last: deque[tuple[ref[NDArray[np.bool_]], Made]] = deque(maxlen=REMEMBERED)

    def of(self, mask: NDArray[np.bool_], make: Callable[[NDArray[np.bool_]], Made]) -> Made:
        """What is made of a mask [documents], always by the same function."""
        for known, made in tuple(self._last):
            if known() is mask:
                return made
        made = make(mask)
        if not mask.flags.writeable:
            self._last.append((ref(mask), made))
        return made


@compiled
def occupied(order: NDArray[np.int32], allowed: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """[superblocks] whether each has a document that may be found.

    Args:
        order: [N] the document at each position.
        allowed: [N] documents that may be found.
    """
    found = np.zeros(-(-len(order) // SUPERBLOCK), np.bool_)
    for s in range(len(found)):
        for document in order[s * SUPERBLOCK : (s + 1) * SUPERBLOCK]:
            if allowed[document]:
                found[s] = True
                break
    return found
