"""Which of an image's regions, and of their attributes, enter a store."""

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
        attributes: confidence above which a region's attributes are used; None for the format's.
    """

    limit: int | None = None
    by: Rule = "first"
    attributes: float | None = None

    @property
    def extra(self) -> dict[str, Any]:
        """What a feature source records of it: nothing of what is left to the format."""
        regions = {} if self.all_regions else {"regions": self.limit, "keep": self.by}
        return regions if self.attributes is None else regions | {"attributes": self.attributes}

    @property
    def all_regions(self) -> bool:
        """Whether all regions are used, in the order of the file."""
        return self.limit is None and self.by == "first"

    def attributes_above(self, default: float) -> float:
        """The confidence above which attributes are used, for a format with this default."""
        return default if self.attributes is None else self.attributes

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
