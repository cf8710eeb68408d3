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
from indexer.quantisation import Quantiser
from indexer.search.lucene import LuceneSearcher
from indexer.search.open import open_index
from indexer.settings import PruningSettings
from indexer.update.resident import ResidentEncoder
from sparta.errors import InputError
from sparta.features.record import ImageFeatures
from sparta.features.store import FeatureStore
from sparta.tokenizer import WordPieceTokenizer


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


def encoder(index: Path, model: Path, tokenizer: WordPieceTokenizer) -> ResidentEncoder:
    return ResidentEncoder(index, [model], tokenizer.vocabulary, device="cpu")


def test_a_photo_under_another_name(
    built: Path, photos: Path, model_dir: Path, tokenizer: WordPieceTokenizer, tmp_path: Path
) -> None:
    upload = shutil.copy(photos / "1.png", tmp_path / "1f2e.png")
    encode = encoder(built, model_dir, tokenizer)
    with closing(open_index(built)) as searcher:
        for _ in range(2):
            assert_equal(encode.photo("1.png", Path(upload)), image_of(searcher, "1.png"))


def test_features(
    sparse_index: Path, store: FeatureStore, model_dir: Path, tokenizer: WordPieceTokenizer
) -> None:
    encode = encoder(sparse_index, model_dir, tokenizer)
    with closing(open_index(sparse_index)) as searcher:
        for image in list(store)[:3]:
            assert_equal(encode.features(image), image_of(searcher, image.image_id))


def test_features_of_another_kind_are_refused(
    sparse_index: Path, store: FeatureStore, model_dir: Path, tokenizer: WordPieceTokenizer
) -> None:
    image = store[0]
    narrow = ImageFeatures(
        "a", image.features[:, :3], image.boxes, image.labels, image.attributes, 8, 8
    )
    with pytest.raises(InputError, match=r"the features are \[\d+, 3\], not \[regions, \d+\]"):
        encoder(sparse_index, model_dir, tokenizer).features(narrow)


def test_term_weights(sparse_index: Path, model_dir: Path, tokenizer: WordPieceTokenizer) -> None:
    encode = encoder(sparse_index, model_dir, tokenizer)
    found = encode.weights("a.jpg", {"dog": 0.5, "beach": 2.0})
    with closing(open_index(sparse_index)) as searcher:
        manifest = searcher.manifest
    quantiser = Quantiser(manifest.scale, manifest.bits)
    ids = tokenizer.vocabulary.index
    terms = sorted([(ids("dog"), 0.5), (ids("beach"), 2.0)])
    assert found.terms.tolist() == [term for term, _ in terms]
    scores = np.array([score for _, score in terms], np.float32)
    np.testing.assert_array_equal(found.impacts, quantiser.impacts(scores))
    assert found.positions.tolist() == [-1, -1]
    assert encode.weights("a", {}).terms.tolist() == []
    assert encode.weights("a", {"dog": 1e300}).impacts.tolist() == [2**manifest.bits - 1]
    with pytest.raises(InputError, match="term 'qqq' is not in the vocabulary"):
        encode.weights("a", {"qqq": 1.0})
    for wrong in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(InputError, match=r"the weight of term 'dog' is .*, not a positive"):
            encode.weights("a", {"dog": wrong})


def test_photos_that_cannot_be_used(
    built: Path, photos: Path, model_dir: Path, tokenizer: WordPieceTokenizer
) -> None:
    (photos / "empty.png").touch()
    with pytest.raises(InputError, match="the photo cannot be used: the file is empty"):
        encoder(built, model_dir, tokenizer).photo("a", photos / "empty.png")
