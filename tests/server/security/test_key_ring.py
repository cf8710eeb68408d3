"""Keys of a running server."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from pathlib import Path

import pytest

from server.security.keys import BadKeyError, Key, KeyRing, new_key, write_keys


def find(ring: KeyRing, text: str) -> Key | None:
    try:
        return ring.valid(text)
    except BadKeyError:
        return None


def test_keys_count_from_the_moment_their_file_changes(file: Path) -> None:
    ring = KeyRing(file)
    (first, first_text), (second, second_text) = new_key("a", "search"), new_key("b", "admin")
    assert not ring.in_use and find(ring, first_text) is None
    write_keys(file, [first])
    assert ring.in_use and find(ring, first_text) == first and find(ring, second_text) is None
    write_keys(file, [first, second])
    assert list(ring) == [first, second]
    write_keys(file, [second])
    assert find(ring, first_text) is None and find(ring, second_text) == second
    write_keys(file, [])
    assert ring.in_use and find(ring, second_text) is None
    file.unlink()
    assert not ring.in_use


def test_what_is_wrong_with_a_key(file: Path) -> None:
    ring = KeyRing(file)
    key, text = new_key("a", "search", datetime.now(UTC))
    write_keys(file, [key])
    with pytest.raises(BadKeyError, match=f"the key {key.id} has expired"):
        ring.valid(text)
    for wrong in (f"sparta_{key.id}_{'a' * 43}", "sparta_00000000_a", ""):
        with pytest.raises(BadKeyError, match="unknown, or was revoked"):
            ring.valid(wrong)


def test_without_a_readable_file_no_key_is_accepted(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ring = KeyRing(file)
    key, text = new_key("a", "search")
    write_keys(file, [key])
    assert find(ring, text)
    file.write_text("damaged")
    with caplog.at_level(logging.ERROR):
        assert find(ring, text) is None and find(ring, text) is None and ring.in_use
    assert len(caplog.records) == 1 and "no key is accepted" in caplog.text
    write_keys(file, [key])
    assert find(ring, text) == key
