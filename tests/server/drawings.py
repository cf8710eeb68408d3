"""The drawings in Lucene, and as features for dense models to embed."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from indexer.build import build_index
from indexer.postings import Postings
from indexer.settings import IndexSettings
from sparta.features.record import ImageFeatures
from sparta.features.store import FeatureStore
from tests.indexer.random_postings import write_postings
from tests.indexer.tiny import SOURCE, save_model
from tests.server.fake import DRAWINGS, postings_of
from tests.server.fake import tokenizer as drawn_tokenizer
from tests.stores import kept_stores, write_store
from tests.tiny import tokenizer


def index_drawings(folder: Path, photos: Path, features: str = "f") -> Path:
    """An index folder of the drawings, made of a feature store of that fingerprint."""
    settings = IndexSettings(
        models=["m"],
        features=[features],
        photos=str(photos),
        top_n=None,
        bits=8,
        offset="none",
        offset_images=0,
        terms="all",
    )
    rows = Postings.of([postings_of(i, DRAWINGS[i]) for i in sorted(DRAWINGS)])
    write_postings(folder, [rows], drawn_tokenizer(), settings)
    return folder


def index_photos(photos: Path, folder: Path) -> tuple[Path, Path, list[FeatureStore]]:
    """An index of photos as `sparta index` makes it, with its model and the features it is of."""
    model, index = save_model(folder / "model", tokenizer()), folder / "index"
    stores = kept_stores(photos, [model], index)
    build_index(stores, [model], index, device="cpu")
    return index, model, stores


def store_drawings(folder: Path) -> FeatureStore:
    """Random features of the drawings."""
    random = np.random.default_rng(0)
    images = []
    for image_id in sorted(DRAWINGS):
        features = random.standard_normal((4, SOURCE.dimension)).astype(np.float16)
        boxes = np.tile(np.array([0, 0, 1, 1], np.float32), (4, 1))
        size = DRAWINGS[image_id].size
        images.append(ImageFeatures(image_id, features, boxes, ("",) * 4, ("",) * 4, *size))
    return write_store(folder, SOURCE, images)
