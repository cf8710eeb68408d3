from typing import Any

import numpy as np
from numpy.typing import NDArray

from indexer.columns.layout import Columns

# What is returned holds the memory of the arrays.
def open_columns(columns: Columns) -> Any: ...
def best_documents(
    segments: list[Any],
    firsts: NDArray[np.int64],
    terms: NDArray[np.int64],
    counts: NDArray[Any],
    allowed: NDArray[np.bool_],
    occupied: NDArray[np.bool_],
    k: int,
    documents: NDArray[np.int32],
    scores: NDArray[np.int64],
) -> int: ...
def best_of_newest(
    impacts: NDArray[Any],
    images: int,
    terms: NDArray[np.int64],
    counts: NDArray[Any],
    allowed: NDArray[np.bool_],
    k: int,
    floor: int,
    documents: NDArray[np.int32],
    scores: NDArray[np.int64],
) -> int: ...
def impacts_at(
    columns: Columns,
    positions: NDArray[np.int64],
    rows: NDArray[np.int64],
    impacts: NDArray[np.int64],
) -> None: ...
def impacts_of_row(columns: Columns, row: int, impacts: NDArray[np.uint16]) -> None: ...
def project(
    starts: NDArray[np.int64],
    terms: NDArray[Any],
    impacts: NDArray[Any],
    known: NDArray[np.float32],
    back: bool,
    sums: NDArray[np.float32],
) -> None: ...
def transpose(
    starts: NDArray[np.int64],
    numbers: NDArray[np.int32],
    values: NDArray[np.uint16],
    turned: NDArray[np.int64],
    rows: NDArray[np.int32],
    moved: NDArray[np.uint16],
) -> None: ...
def survey(
    positions: NDArray[np.int32],
    starts: NDArray[np.int64],
    terms: NDArray[Any],
    impacts: NDArray[Any],
    first: int,
    row_of: NDArray[np.int32],
    maxima: NDArray[Any],
    sizes: NDArray[np.uint8],
) -> None: ...
def fill(
    positions: NDArray[np.int32],
    starts: NDArray[np.int64],
    terms: NDArray[Any],
    impacts: NDArray[Any],
    first: int,
    row_of: NDArray[np.int32],
    steps: NDArray[np.int64],
    following: NDArray[np.int64],
    levels: NDArray[np.uint8],
    bitmaps: NDArray[np.uint8],
    made: NDArray[Any],
    postings: NDArray[Any],
) -> None: ...
def occupied(
    order: NDArray[np.int32], allowed: NDArray[np.bool_], superblocks: NDArray[np.bool_]
) -> None: ...

# Horspool's search for `piece`, UTF-8 of at least a byte, in W words one behind another. `starts`
# [W + 1] is where each begins and the last one ends. `classes` [256] says of each byte whether it
# is a sign, a letter or digit, or part of a letter. `found` [W] is set to 0 for words without the
# piece, 1 for those that have it with no letter or digit beside it, 2 if a letter that is not ASCII
# is beside it.
def find_piece(
    texts: NDArray[np.uint8],
    starts: NDArray[np.int32],
    piece: NDArray[np.uint8],
    classes: NDArray[np.uint8],
    found: NDArray[np.uint8],
) -> None: ...

# What won some terms of d packed images; the w wanted terms have P different winners. `layouts`
# [d, 10] has a `Layout` for each image, `terms` [m] rising vocabulary ids, `order` [m] the column
# of each in `wanted` [d, m]. Set are `won` [w], the number of each term's winner, -1 for none; of
# the first P `regions` the region that won, of `corners` [w, 4] its box as it is packed, `tokens`
# (before -1) the vocabulary id of the label token that won, of `labels` [w, 2] (before 0) where the
# region's label begins and ends in `words`, vocabulary ids of labels. Returns P and the number of
# words; raises ValueError if an image is damaged.
def find_winners(
    data: NDArray[np.uint8],
    layouts: NDArray[np.int64],
    terms: NDArray[np.int64],
    order: NDArray[np.int64],
    wanted: NDArray[np.bool_],
    won: NDArray[np.int64],
    regions: NDArray[np.int64],
    corners: NDArray[np.uint16],
    tokens: NDArray[np.int64],
    labels: NDArray[np.int64],
    words: NDArray[np.int64],
) -> tuple[int, int]: ...
def use_avx2(wanted: bool) -> bool: ...
