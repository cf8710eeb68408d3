"""The origins of a dense part's rows, on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from indexer.dense.manifest import ORIGINS
from indexer.dense.row_origins import read_origins, write_origins
from sparta.errors import InputError


def test_what_is_written_is_read(tmp_path: Path) -> None:
    for origins in ([], ["=é", "=a/b", "0" * 32]):
        write_origins(tmp_path, origins)
        assert read_origins(tmp_path).to_pylist() == origins


@pytest.mark.parametrize("data", [b"", b"something else"])
def test_damage_is_reported(tmp_path: Path, data: bytes) -> None:
    (tmp_path / ORIGINS).write_bytes(data)
    with pytest.raises(InputError, match=r"origins\.arrow is damaged"):
        read_origins(tmp_path)


def test_a_missing_file_is_damage(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"origins\.arrow is damaged"):
        read_origins(tmp_path)
