"""An index in each engine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from indexer.search.columns import ColumnSearcher

from indexer.search.lucene import LuceneSearcher


@pytest.fixture(scope="module", params=[LuceneSearcher, ColumnSearcher])
def searcher(request: Any, index: Path) -> Iterator[LuceneSearcher]:
    with closing(request.param(index)) as searcher:
        yield searcher
