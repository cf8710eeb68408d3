"""Single images are encoded as `sparta index` encodes them."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from indexer.build import build_index
from indexer.encoding.stores import open_stores
from indexer.postings import ImagePostings
from indexer.search.lucene import LuceneSearcher
from indexer.search.open import open_index
from indexer.settings import PruningSettings
from indexer.update.resident import ResidentEncoder
from sparta.errors import InputError
from sparta.features.record import ImageFeatures
from sparta.features.store import FeatureStore


def image_of(searcher: LuceneSearcher, image_id: str) -> ImagePostings:
    document = searcher.index.document(image_id)
    assert document is not None
    [image] = searcher.index.images([document], searcher.tokenizer.vocabulary)
    return image


def assert_equal(found: ImagePostings, right: ImagePostings) -> None:
    assert (found.image_id, found.metadata) == (right.image_id, right.metadata)
    for name in ("terms", "impacts", "positions"):
        np.testing.assert_array_equal(getattr(found, name), getattr(right, name))
    np.testing.assert_allclose(found.inputs.boxes, right.inputs.boxes, atol=1e-4)
    np.testing.assert_array_equal(found.inputs.label_terms, right.inputs.label_terms)


@pytest.fixture
def built(photos: Path, model_dir: Path, tmp_path: Path) -> Path:
    """An index of photos in three augmentations, the last of which depends on the id."""
    out = tmp_path / "index"
    stores = open_stores([photos], [model_dir], "visual_sparta", out, augmentations=3, device="cpu")
    build_index(stores, [model_dir], out, PruningSettings(top_n=5), device="cpu")
    return out


def encoder(index: Path, model: Path) -> ResidentEncoder:
    return ResidentEncoder(index, [model], device="cpu")


def test_a_photo_under_another_name(
    built: Path, photos: Path, model_dir: Path, tmp_path: Path
) -> None:
    upload = shutil.copy(photos / "1.png", tmp_path / "1f2e.png")
    encode = encoder(built, model_dir)
    with closing(open_index(built)) as searcher:
        for _ in range(2):
            assert_equal(encode.photo("1.png", Path(upload)), image_of(searcher, "1.png"))


def test_features(sparse_index: Path, store: FeatureStore, model_dir: Path) -> None:
    encode = encoder(sparse_index, model_dir)
    with closing(open_index(sparse_index)) as searcher:
        for image in list(store)[:3]:
            assert_equal(encode.features(image), image_of(searcher, image.image_id))


def test_features_of_another_kind_are_refused(
    sparse_index: Path, store: FeatureStore, model_dir: Path
) -> None:
    image = store[0]
    narrow = ImageFeatures(
        "a", image.features[:, :3], image.boxes, image.labels, image.attributes, 8, 8
    )
    with pytest.raises(InputError, match=r"the features are \[\d+, 3\], not \[regions, \d+\]"):
        encoder(sparse_index, model_dir).features(narrow)


def test_photos_that_cannot_be_used(built: Path, photos: Path, model_dir: Path) -> None:
    (photos / "empty.png").touch()
    with pytest.raises(InputError, match="the photo cannot be used: the file is empty"):
        encoder(built, model_dir).photo("a", photos / "empty.png")
