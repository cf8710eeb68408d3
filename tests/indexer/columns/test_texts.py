"""Texts of a mapped column, as Arrow itself reads them."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.columns.image_table import Texts

TEXTS = st.lists(st.text(max_size=4), max_size=5)


@given(chunks=st.lists(TEXTS, max_size=4), first=st.integers(0, 6))
def test_they_are_those_of_the_column(chunks: list[list[str]], first: int) -> None:
    column = pa.chunked_array(chunks, pa.large_string()).slice(first)
    right = column.to_pylist()
    texts = Texts(column)
    assert [*texts] == texts[:] == right
    assert (len(texts), texts[1:3]) == (len(right), right[1:3])
    for beyond in (-1, len(right)):
        with pytest.raises(IndexError):
            texts[beyond]
