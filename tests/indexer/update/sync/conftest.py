"""An index of three photos, and what it holds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from indexer.build import build_index
from indexer.encoding.features import open_stores
from indexer.store.snapshot import Snapshot
from indexer.update.sync import Encoding, PhotoSync

Images = dict[str, dict[str, Any]]


@pytest.fixture
def encoding(model_dir: Path) -> Encoding:
    return Encoding([model_dir], device="cpu")


@pytest.fixture
def built(photos: Path, model_dir: Path, tmp_path: Path) -> Path:
    out = tmp_path / "index"
    stores = open_stores([photos], [model_dir], "visual_sparta", out, device="cpu")
    build_index(stores, [model_dir], out, device="cpu")
    return out


@pytest.fixture
def job(built: Path, photos: Path, encoding: Encoding) -> Callable[[], PhotoSync]:
    return lambda: PhotoSync(built, photos, encoding)


def draw(path: Path, seed: int) -> None:
    """A photo of noise, another for each seed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 255, (20, 30, 3), np.uint8)
    Image.fromarray(pixels).save(path)


def images_of(index: Path) -> Images:
    """Metadata by id."""
    images = Snapshot.open(index)
    return dict(map(images.stored, images.live_documents().tolist()))


def terms_of(index: Path, image_id: str) -> dict[int, int]:
    """The impact of each of an image's terms."""
    images = Snapshot.open(index)
    document = images.document(image_id)
    assert document is not None
    [image] = images.images([document])
    return dict(zip(image.terms.tolist(), image.impacts.tolist(), strict=True))
