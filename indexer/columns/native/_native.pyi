from typing import Any

import numpy as np
from numpy.typing import NDArray

from indexer.columns.layout import Columns

def best_documents(
    segments: list[Columns],
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
def occupied(
    order: NDArray[np.int32], allowed: NDArray[np.bool_], superblocks: NDArray[np.bool_]
) -> None: ...
def find_piece(
    texts: NDArray[np.uint8],
    starts: NDArray[np.int32],
    piece: NDArray[np.uint8],
    classes: NDArray[np.uint8],
    found: NDArray[np.uint8],
) -> None: ...
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
