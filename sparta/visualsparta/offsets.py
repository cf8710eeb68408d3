"""What training photos say of a model's term scores, for collections too small to say it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from sparta.visualsparta.batch import ImageBatch
    from sparta.visualsparta.model import VisualSparta

OFFSETS = "offsets.npz"  # of a model's folder
SAMPLE = 2000  # images at most


class TermOffsets(NamedTuple):
    """What a sample of images determines for a whole index.

    Attributes:
        offset: [V] float32, to subtract from each term's scores.
        largest: the largest score above its offset, which gets the largest impact.
    """

    offset: NDArray[np.float32]
    largest: float

    def save(self, path: Path) -> None:
        """Write one file, under a temporary name first."""
        unfinished = path.with_name(f"unfinished-{path.name}")
        np.savez_compressed(unfinished, offset=self.offset, largest=self.largest)
        unfinished.replace(path)

    @classmethod
    def load(cls, path: Path) -> Self | None:
        """Read what `save` wrote, None if there is no such file or it is damaged."""
        try:
            with np.load(path, allow_pickle=False) as file:
                return cls(file["offset"].astype(np.float32), float(file["largest"]))
        except (OSError, ValueError, KeyError, EOFError, BadZipFile):
            return None


def training_offsets(model: VisualSparta, batches: Iterable[ImageBatch]) -> TermOffsets | None:
    """The offsets of the kind that a model is trained for, over at most 2,000 of its photos.

    None for kinds other than mean and none, which a few images estimate as well.
    """
    found: list[NDArray[np.float32]] = []
    for batch in batches:
        found.append(model.term_scores(batch, model.trained_terms).scores.cpu().numpy())
        if sum(map(len, found)) >= SAMPLE:
            break
    if model.config.offset not in ("mean", "none") or not found:
        return None
    scores = np.concatenate(found)
    offset = scores.mean(axis=0) * (model.config.offset == "mean")
    return TermOffsets(offset, float((scores - offset).max()))
