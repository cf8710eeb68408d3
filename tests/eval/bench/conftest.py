"""A small index whose images the measured ones are made of."""

from pathlib import Path

import pytest

from tests.server.drawings import index_drawings
from tests.server.fake import draw


@pytest.fixture(scope="session")
def drawings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    photos = draw(tmp_path_factory.mktemp("photos"))
    return index_drawings(tmp_path_factory.mktemp("drawings") / "index", photos)
