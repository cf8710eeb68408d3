"""Changes in Arrow come back as they were."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.live.changes import NOT_CHANGES, Change, Delete, pack_changes, unpack_changes
from tests.indexer.live.some_changes import CHANGES, plain


@settings(max_examples=40)
@given(st.lists(CHANGES, max_size=6))
def test_what_is_packed_comes_back(changes: list[Change]) -> None:
    found = list(unpack_changes(pack_changes(changes)))
    assert list(map(plain, found)) == list(map(plain, changes))
    assert [change.image_id for change in found] == [change.image_id for change in changes]


def test_other_bytes_are_refused() -> None:
    whole = pack_changes([Delete("a")])
    for data in (b"", b"letters", whole[: len(whole) // 2]):
        with pytest.raises(NOT_CHANGES):
            list(unpack_changes(data))
