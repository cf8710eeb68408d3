"""Images that are added get vectors of the dense models that can embed them."""

from __future__ import annotations

import shutil
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from indexer.dense.build import add_dense
from indexer.live.origin import origin_of
from indexer.search.open import open_backend
from indexer.update.add import add_images
from indexer.update.dense import DenseFollower, WrittenImages
from indexer.update.writer import open_writer
from sparta.features.store import FeatureStore
from tests.indexer.tiny import SOURCE, write_store
from tests.indexer.tiny_dense import save_dense_model, slow_scores

QUERY = "red dogs"


@pytest.fixture
def index(sparse_index: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sparse_index, tmp_path / "index"))


@pytest.fixture
def changed(tmp_path: Path) -> FeatureStore:
    """Other features of all images."""
    return write_store(tmp_path / "changed", seed=1)


def best_scores(model: Path, store: FeatureStore) -> dict[str, float]:
    return {i: max(row) for i, row in zip(store.ids, slow_scores(model, store, QUERY), strict=True)}


def found(index: Path, name: str) -> dict[str, float]:
    with closing(open_backend(index, name)) as searcher:
        return {hit.image_id: hit.score for hit in searcher.search(QUERY, 99).hits}


def test_replaced_images_are_found_by_their_new_vectors(
    index: Path,
    store: FeatureStore,
    changed: FeatureStore,
    model_dir: Path,
    dense_model: Path,
    multi_view: Path,
) -> None:
    add_dense(index, store, "one", dense_model, device="cpu")
    add_dense(index, store, "views", multi_view, kind="hnsw", device="cpu")
    assert found(index, "one") == pytest.approx(best_scores(dense_model, store), abs=1e-5)
    add_images(index, [changed], [model_dir], batch_size=3, device="cpu")
    one, views = (best_scores(model, changed) for model in (dense_model, multi_view))
    assert found(index, "one") == pytest.approx(one, abs=1e-5)
    assert found(index, "views") == pytest.approx(views, abs=1e-5)
    both = {image_id: (score + views[image_id]) / 2 for image_id, score in one.items()}
    assert found(index, "ensemble") == pytest.approx(both, abs=1e-5)
    # What was embedded before is not embedded again, and the former features have their vectors.
    sizes = [path.stat().st_size for path in sorted(index.glob("dense/*/added-*"))]
    for again in (changed, store):
        add_images(index, [again], [model_dir], batch_size=3, device="cpu")
        right = best_scores(dense_model, again)
        assert found(index, "one") == pytest.approx(right, abs=1e-5)
    grown = [path.stat().st_size for path in sorted(index.glob("dense/*/added-*"))]
    assert grown == [2 * size for size in sizes]


def test_models_that_cannot_embed_them_lack_them(
    index: Path,
    store: FeatureStore,
    changed: FeatureStore,
    model_dir: Path,
    dense_model: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    larger = write_store(tmp_path / "large", source=replace(SOURCE, image_size=64))
    other = save_dense_model(tmp_path / "64", source=larger.source)
    add_dense(index, larger, "large", other, device="cpu")
    add_dense(index, store, "one", dense_model, device="cpu")
    add_images(index, [changed], [model_dir], batch_size=3, device="cpu")
    warned = [record.message for record in caplog.records]
    assert sum("large: " in text and "holds other features" in text for text in warned) == 1
    assert found(index, "large") == {}
    right = best_scores(dense_model, changed)
    assert found(index, "one") == pytest.approx(right, abs=1e-5)


def test_without_torch_images_are_written_all_the_same(
    index: Path,
    store: FeatureStore,
    dense_model: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    add_dense(index, store, "one", dense_model, device="cpu")
    image = store[0]
    written = WrittenImages([image], [origin_of(image)], store, None, [image.image_id])
    with open_writer(index), monkeypatch.context() as patch:
        follower = DenseFollower(index)
        patch.setitem(sys.modules, "torch", None)
        follower.add(written)
        follower.add(written)
    [warned] = [r.message for r in caplog.records if "images have no vectors of one" in r.message]
    assert "torch is not installed" in warned
