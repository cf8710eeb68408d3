"""Size augmentation of training examples: visual vectors and words (GPO section 3.3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.utils.rnn import pad_sequence

from sparta.vse.batch import RegionBatch
from training.dropout import remaining

if TYPE_CHECKING:
    from sparta.vse.tokenizer import TextTokenizer


def keep_regions(n: int, rng: np.random.Generator, chance: float = 0.2) -> NDArray[np.int64]:
    """Drop each region with the same probability, 20 % in GPO's paper and code.

    Args:
        n: number of regions, at least 1.
        rng: source of the draws.
        chance: probability of each region to be dropped.

    Returns:
        [m] int64, the rows that stay, ascending, 1 <= m <= n: if all would be dropped, one drawn
        row stays.

    Raises:
        ValueError: if there is no region.
    """
    if n < 1:
        raise ValueError("an image must have at least one region")
    return remaining(n, chance, rng)


def keep_grid(
    n: int, rng: np.random.Generator, apply: float = 0.8, most: float = 0.2
) -> NDArray[np.int64]:
    """Drop grid cells at a rate drawn for each image, as the published code does.

    One u is drawn per image: below 1 - `apply` nothing is dropped, above it each cell with
    probability `most`·u, so 4 to 20 % by default, 9.6 % over all images. The paper drops 20 % of
    every image: see `keep_regions`.

    Args:
        n: number of cells, at least 1.
        rng: source of the draws.
        apply: share of the images whose cells are dropped.
        most: the highest probability of a cell to be dropped.

    Returns:
        [m] int64, the rows that stay, ascending, 1 <= m <= n.

    Raises:
        ValueError: if there is no cell.
    """
    rate = rng.random()
    return keep_regions(n, rng, most * rate if rate > 1 - apply else 0.0)


def _keep_all(n: int, rng: np.random.Generator) -> NDArray[np.int64]:
    return np.arange(n)


# `augmentation.regions` of the settings → the rows of n vectors that stay.
KEEP = {
    "none": _keep_all,
    "regions": keep_regions,
    "grid": keep_grid,
    "grid-flat": keep_regions,
}


def drop_vectors(images: RegionBatch, rule: str, rng: np.random.Generator) -> RegionBatch:
    """Drop vectors of the sets that a vision network gives, before they are pooled.

    Args:
        images: B sets without padding.
        rule: a key of `KEEP`.
        rng: source of the draws.

    Returns:
        The sets with the vectors that stay, in order, padded with zeros; gradients pass.
    """
    kept = [rows[torch.from_numpy(KEEP[rule](len(rows), rng))] for rows in images.regions]
    lengths = torch.tensor([len(rows) for rows in kept], device=images.lengths.device)
    return RegionBatch(pad_sequence(kept, batch_first=True), lengths)


def disturb_words(
    words: Sequence[Sequence[int]],
    tokenizer: TextTokenizer,
    rng: np.random.Generator,
    chance: float = 0.2,
) -> list[list[int]]:
    """Mask, replace or delete whole words, as the published code of GPO and VSE+2AD does.

    Of the chosen words, 50 % are masked and 10 % replaced by random entries of the vocabulary,
    piece by piece so that their length is unchanged; 40 % are deleted, which is the size
    augmentation. GPO's paper drops 20 % of the words.

    Args:
        words: ids of each word's pieces, without start and end tokens.
        tokenizer: supplies the mask id and the ordinary ids.
        rng: source of the draws.
        chance: probability of each word to be chosen.

    Returns:
        The words that stay, in order. If all would be deleted, one drawn word stays unchanged.
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
