"""The search of columns: in C where the package was built with a compiler, in NumPy elsewhere."""

from __future__ import annotations

import logging

try:
    from indexer.columns.native import (
        best_documents,
        best_of_newest,
        impacts_at,
        impacts_of_row,
        occupied,
    )
except ImportError:
    from indexer.columns.postings import (
        best_documents,
        best_of_newest,
        impacts_at,
        impacts_of_row,
        occupied,
    )

    logging.getLogger(__name__).warning(
        "the search kernel is missing, and a search takes some 400 times as long: install a "
        "wheel of VisualSparta, or a C compiler and then VisualSparta again"
    )

__all__ = ["best_documents", "best_of_newest", "impacts_at", "impacts_of_row", "occupied"]
