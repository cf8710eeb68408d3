"""Copies of the indexes that tests share."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def make_copy(tmp_path: Path) -> Callable[[Path], Path]:
    return lambda index: shutil.copytree(index, tmp_path / "own")
