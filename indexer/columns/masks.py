"""What was made of the filters used last."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar
from weakref import ref

import numpy as np
from numpy.typing import NDArray

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
