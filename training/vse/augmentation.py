"""Size augmentation: fewer regions, fewer grid cells, disturbed words (GPO section 3.3).

All draws come from the generator passed in. Only training examples are disturbed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from sparta.vse.tokenizer import TextTokenizer


def keep_regions(n: int, rng: np.random.Generator, chance: float = 0.2) -> NDArray[np.int64]:
    """Drop each region with the same chance, 20 % in GPO's paper and code.

    Args:
        n: how many regions there are, 1 or more.
        rng: where the draws come from.
        chance: of each region to be dropped.

    Returns:
        [m] int64, the rows that stay, rising, 1 <= m <= n: where all would go, one drawn row
        stays.

    Raises:
        ValueError: if there is no region.
    """
    if n < 1:
        raise ValueError("an image without regions has none to keep")
    kept = np.flatnonzero(rng.random(n) >= chance)
    return kept if len(kept) else rng.integers(n, size=1)


def keep_grid(
    n: int, rng: np.random.Generator, apply: float = 0.8, most: float = 0.2
) -> NDArray[np.int64]:
    """Drop grid cells at a rate of each image's own, as the published code does.

    One u is drawn per image: below 1 - `apply` nothing is dropped, above it each cell with chance
    `most`·u, so 4 to 20 % by default, 9.6 % over all images. The paper drops 20 % of every image:
    that is `keep_regions`.

    Args:
        n: how many cells there are, 1 or more.
        rng: where the draws come from.
        apply: share of the images that lose cells.
        most: the highest chance of a cell to be dropped.

    Returns:
        [m] int64, the rows that stay, rising, 1 <= m <= n.

    Raises:
        ValueError: if there is no cell.
    """
    rate = rng.random()
    return keep_regions(n, rng, most * rate if rate > 1 - apply else 0.0)


def disturb_words(
    words: Sequence[Sequence[int]],
    tokenizer: TextTokenizer,
    rng: np.random.Generator,
    chance: float = 0.2,
) -> list[list[int]]:
    """Mask, replace or delete whole words, as published code does for GPO and VSE+2AD.

    Of the words chosen, 50 % are masked and 10 % replaced by random entries of the vocabulary,
    piece by piece so that their length stays; 40 % are deleted, which is the size augmentation.
    GPO's paper itself speaks of dropping 20 %.

    Args:
        words: ids of each word's pieces, without start and end.
        tokenizer: for its mask id and its ordinary ids.
        rng: where the draws come from.
        chance: of each word to be chosen.

    Returns:
        The words that stay, in order, at least one unless none were given: where all would be
        deleted, one drawn word stays as it is.
    """
    ordinary = tokenizer.ordinary_ids
    disturbed = []
    for word, draw in zip(words, rng.random(len(words)).tolist(), strict=True):
        if draw >= chance:
            disturbed.append(list(word))
        elif draw < 0.5 * chance:
            disturbed.append([tokenizer.mask_id] * len(word))
        elif draw < 0.6 * chance:
            picks = rng.integers(len(ordinary), size=len(word)).tolist()
            disturbed.append([ordinary[pick] for pick in picks])
    if words and not disturbed:
        return [list(words[int(rng.integers(len(words)))])]
    return disturbed
