"""Packs the groundings of many images at once, in a tenth of the time of one after another."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from indexer.grounding import BOX_STEPS, ESCAPE, HEADER, narrowest
from indexer.postings import Postings

_CORNERS = 8  # bytes of a box


def pack_all(images: Postings) -> list[bytes]:
    """Pack the grounding of each image; see `grounding.pack`, whose bytes these are."""
    gaps, gap_starts = _gaps(images.terms, images.starts)
    corners = np.rint(images.boxes * BOX_STEPS).astype("<u2").tobytes()
    inputs = np.diff(images.box_starts) + np.diff(images.label_starts)
    position = [narrowest(one).itemsize for one in (inputs - 1).tolist()]
    label = [narrowest(one).itemsize for one in _largest(images.label_terms, images.label_starts)]
    positions = {size: images.positions.astype(f"<u{size}").tobytes() for size in {*position}}
    regions = {size: images.label_regions.astype(f"<u{size}").tobytes() for size in {*position}}
    labels = {size: images.label_terms.astype(f"<u{size}").tobytes() for size in {*label}}
    packed = []
    for p, w, (g, g2), (s, s2), (b, b2), (r, r2) in zip(
        position,
        label,
        pairwise(gap_starts),
        pairwise(images.starts.tolist()),
        pairwise(images.box_starts.tolist()),
        pairwise(images.label_starts.tolist()),
        strict=True,
    ):
        header = HEADER.pack(p, w, s2 - s, g2 - g, b2 - b, r2 - r)
        parts = (
            header,
            gaps[g:g2],
            positions[p][p * s : p * s2],
            corners[_CORNERS * b : _CORNERS * b2],
            labels[w][w * r : w * r2],
            regions[p][p * r : p * r2],
        )
        packed.append(b"".join(parts))
    return packed


def _gaps(terms: NDArray[np.int32], starts: NDArray[np.int64]) -> tuple[bytes, list[int]]:
    """The bytes of all images' gaps between terms, and where each image's begin."""
    gaps = np.diff(terms, prepend=0)
    first = starts[:-1][starts[:-1] < starts[1:]]
    gaps[first] = terms[first]
    large = np.flatnonzero(gaps >= ESCAPE)  # few
    escapes = gaps[large] // ESCAPE
    gaps[large] %= ESCAPE
    packed = np.insert(gaps.astype(np.uint8), np.repeat(large, escapes), ESCAPE)
    before = np.concatenate([[0], np.cumsum(escapes)])[np.searchsorted(large, starts)]
    return packed.tobytes(), (starts + before).tolist()


def _largest(values: NDArray[np.int32], starts: NDArray[np.int64]) -> list[int]:
    """The largest value of each image, 0 for one without any."""
    found = np.maximum.reduceat(np.append(values, 0), starts[:-1]) if len(starts) > 1 else starts
    largest: list[int] = np.where(np.diff(starts) > 0, found[: len(starts) - 1], 0).tolist()
    return largest
