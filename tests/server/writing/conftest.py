"""An index of drawings to write to."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.server.drawings import index_drawings


@pytest.fixture(scope="session")
def drawings(tmp_path_factory: pytest.TempPathFactory, photos: Path) -> Path:
    return index_drawings(tmp_path_factory.mktemp("drawings") / "index", photos)


@pytest.fixture
def index(drawings: Path, tmp_path: Path) -> Path:
    return shutil.copytree(drawings, tmp_path / "index")
