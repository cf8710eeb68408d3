"""Classes of regions as detectors of the bottom-up-attention family number them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparta.errors import InputError
from sparta.features.readers.parsing.validation import TOLERANCE


@dataclass(frozen=True)
class Classes:
    """What a detector took n regions for: the likeliest object and attribute of each.

    Attributes:
        where: file and line, for messages.
        objects_id: [n] of any integer type.
        objects_conf: [n] of any float type, 0 to 1.
        attrs_id: [n] of any integer type; None from a detector without attributes.
        attrs_conf: [n] of any float type, 0 to 1.

    Raises:
        InputError: naming file, line and field, if a confidence is not between 0 and 1.
    """

    where: str
    objects_id: NDArray[Any]
    objects_conf: NDArray[Any]
    attrs_id: NDArray[Any] | None = None
    attrs_conf: NDArray[Any] | None = None

    def __post_init__(self) -> None:
        for name in ("objects_conf", "attrs_conf"):
            values = getattr(self, name)
            if values is None:
                continue
            for row in np.flatnonzero(~((values >= 0) & (values <= 1 + TOLERANCE)))[:1]:
                raise InputError(
                    f"{self.where}: {name}, row {row + 1}: expected 0 to 1, found {values[row]}"
                )
