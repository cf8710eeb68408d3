"""An index of drawings to write to."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest


@pytest.fixture
def index(drawings: Path, tmp_path: Path) -> Path:
    return shutil.copytree(drawings, tmp_path / "index")
