"""Settings of a corpus of rendered scenes: number, seed and splits."""

from __future__ import annotations

from dataclasses import dataclass

from sparta.errors import InputError
from training.scenes.render import CORPUS_VERSION

Splits = tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class CorpusSettings:
    """What determines a corpus: with equal settings, corpora are equal byte by byte.

    Attributes:
        count: number of scenes.
        seed: of the renderer.
        splits: (name, share) in the order of the scenes; the shares sum to 1.
        version: of the renderer.
    """

    count: int
    seed: int
    splits: Splits
    version: int = CORPUS_VERSION

    def split(self, index: int) -> str:
        """Name of the split of scene `index`."""
        bound = 0.0
        for name, share in self.splits:
            bound += share * self.count
            if index < round(bound):
                return name
        return self.splits[-1][0]


def parse_splits(text: str) -> Splits:
    """Parse "train" or "train=0.9,val=0.1".

    Raises:
        InputError: if a share is not a number, or the shares do not sum to 1.
    """
    pairs = [part.strip().partition("=") for part in text.split(",")]
    try:
        splits = tuple((name, float(share) if mark else 1.0) for name, mark, share in pairs)
    except ValueError:
        splits = ()
    if (
        not splits
        or abs(sum(share for _, share in splits) - 1) > 1e-6
        or not all(name and share > 0 for name, share in splits)
    ):
        raise InputError(
            f"--split {text!r}: expected one name, or names with shares that sum to 1,"
            " such as train=0.9,val=0.1"
        )
    return splits
