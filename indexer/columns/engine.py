"""The search of columns: in C where the package was built with a compiler, in numba elsewhere.

C needs no time to load or to be compiled, and is faster.
"""

from __future__ import annotations

try:
    from indexer.columns.native import (
        best_documents,
        best_of_newest,
        impacts_at,
        impacts_of_row,
        occupied,
    )
except ImportError:
    from indexer.columns.in_numba import (
        best_documents,
        best_of_newest,
        impacts_at,
        impacts_of_row,
        occupied,
    )

__all__ = ["best_documents", "best_of_newest", "impacts_at", "impacts_of_row", "occupied"]
