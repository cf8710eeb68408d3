"""Which of an image's regions enter a store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sparta.errors import InputError

Rule = Literal["first", "confident"]


@dataclass(frozen=True)
class RegionLimit:
    """The first regions of each image, or those of highest confidence.

    Oscar takes the first 50 in the file's order. In files of bottom-up attention these have the
    highest confidence only where the detector found too many or too few.

    Attributes:
        limit: regions an image keeps at most; None for all.
        by: "first" keeps the order of the file, "confident" sorts by decreasing confidence.
    """

    limit: int | None = None
    by: Rule = "first"

    @property
    def extra(self) -> dict[str, Any]:
        """What a feature source records of it: nothing where all regions keep their order."""
        if self == RegionLimit():
            return {}
        return {"regions": self.limit, "keep": self.by}

    def rows(
        self, count: int, confidences: NDArray[np.floating] | None, where: str
    ) -> NDArray[np.int64]:
        """Rows to keep.

        Args:
            count: regions there are.
            confidences: [count] of any float type; None where the file has none.
            where: file and line, for messages.

        Returns:
            [min(limit, count)]: rising for "first"; by falling confidence, equal ones in order of
            the file, for "confident".

        Raises:
            InputError: if confidences are needed and missing, not one for each region, or not
                numbers.
        """
        if self.by == "first":
            return np.arange(count, dtype=np.int64)[: self.limit]
        if confidences is None:
            raise InputError(
                f"{where}: confidence: missing, so regions cannot be chosen by it; use --keep first"
            )
        if len(confidences) != count or np.isnan(confidences).any():
            raise InputError(f"{where}: confidence: expected {count} numbers, one for each region")
        return np.argsort(-confidences, kind="stable").astype(np.int64)[: self.limit]
