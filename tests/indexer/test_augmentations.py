"""Scores averaged over several models and several views of the same photos."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

import indexer.build
from indexer.build import build_index
from indexer.encode import ImageEncoder
from indexer.inputs import open_features
from indexer.search.lucene import LuceneSearcher
from sparta.errors import InputError
from sparta.features.extract.augmented_stores import augmentation_names
from sparta.features.record import ImageFeatures
from sparta.features.store import FeatureStore
from sparta.features.writer import StoreWriter
from sparta.tokenizer import WordPieceTokenizer
from tests.indexer.conftest import SPECIAL
from tests.indexer.tiny import SOURCE, save_model, slow_impacts, write_store


@pytest.fixture(scope="module")
def flipped(tmp_path_factory: pytest.TempPathFactory) -> FeatureStore:
    return write_store(tmp_path_factory.mktemp("flipped"), seed=1, augmentation="flip")


@pytest.fixture(scope="module")
def other_model(tmp_path_factory: pytest.TempPathFactory, tokenizer: WordPieceTokenizer) -> Path:
    folder = tmp_path_factory.mktemp("other")
    return save_model(folder, tokenizer, seed=1, untrained=["dog", "red"])


@pytest.mark.parametrize("sample", [2000, 21, 10])
def test_the_index_holds_the_mean_over_models_and_views(
    store: FeatureStore,
    flipped: FeatureStore,
    model_dir: Path,
    other_model: Path,
    tmp_path: Path,
    sample: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(indexer.build, "BASELINE_SAMPLE", sample)
    views, models = [store, flipped], [model_dir, other_model]
    # A mean over part of the corpus is no concern of this test.
    offset = "none" if sample < len(store) else "mean"
    scored: list[int] = []
    score = ImageEncoder._score

    def counting(encoder: ImageEncoder, rows: tuple[int, ...]) -> object:
        scored.extend(rows)
        return score(encoder, rows)

    monkeypatch.setattr(ImageEncoder, "_score", counting)
    out = tmp_path / "index"
    manifest = build_index(views, models, out, top_n=9, batch_size=3, device="cpu", offset=offset)
    # A corpus that is its own sample is scored once.
    assert len(scored) == len(store) + (sample if sample < len(store) else 0)
    right = slow_impacts(views, models, manifest)
    alone = slow_impacts([store], [model_dir], manifest)
    assert right.keys() != alone.keys()
    assert {term for _, term in right} >= {"cat", "dog", "red"}  # each seen by one of the models
    searcher = LuceneSearcher(out)
    vocabulary = [t for t in WordPieceTokenizer.from_folder(out).vocabulary if t[0] not in "[#"]
    for image_id in store.ids:
        for term in searcher.explain(" ".join(vocabulary), image_id).terms:
            impact, *winner = right.get((image_id, term.term), (0, None, None))
            # The sample's largest score, not the corpus's, gets the top level.
            assert abs(term.impact - impact) <= (1 if sample >= len(store) else 0.2 * impact + 1)
            assert [term.region, term.label] == winner
            if term.region is not None:
                box = store[store.index(image_id)].boxes[term.region].tolist()
                assert term.box == pytest.approx(box, abs=1e-5)
    searcher.close()
    assert manifest.features == [store.fingerprint, flipped.fingerprint]
    assert len(set(manifest.models)) == 2


def test_terms_no_model_has_seen_stay_out(
    store: FeatureStore, model_dir: Path, tokenizer: WordPieceTokenizer, tmp_path: Path
) -> None:
    second = save_model(tmp_path / "model", tokenizer, seed=2, untrained=["cat", "dog"])
    build_index([store], [model_dir, second], tmp_path / "index", offset="none", device="cpu")
    searcher = LuceneSearcher(tmp_path / "index")
    assert searcher.search("cat dog").unknown == ["cat"]
    searcher.close()


def same_but(folder: Path, store: FeatureStore, drop: str = "", rename: str = "") -> FeatureStore:
    writer = StoreWriter(folder, store.source)
    images = [image for image in store if image.image_id != drop]
    if rename:
        images[-1] = replace(images[-1], image_id=rename)
    writer.write_shard(images)
    return writer.finish()


Breaker = Callable[[Path, FeatureStore], list[FeatureStore]]


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (lambda at, store: [], "no features"),
        (
            lambda at, store: [store, write_store(at, replace(SOURCE, image_size=64))],
            "is no view of .*: image_size: 32 against 64",
        ),
        (
            lambda at, store: [store, same_but(at, store, drop="0/3.jpg")],
            "is no view of .*: image 3 is 0/4.jpg instead of 0/3.jpg",
        ),
        (
            lambda at, store: [store, same_but(at, store, drop="2/5.jpg")],
            "is no view of .*: image 20 is missing instead of 2/5.jpg",
        ),
        (
            lambda at, store: [same_but(at, store, drop="2/5.jpg"), store],
            "is no view of .*: image 20 is 2/5.jpg instead of absent",
        ),
        (
            lambda at, store: [store, same_but(at, store, rename="z.jpg")],
            "image 20 is z.jpg instead of 2/5.jpg",
        ),
        (lambda at, store: [write_store(at, augmentation="flip"), store], "plain photos first"),
    ],
)
def test_stores_that_are_no_views_of_the_same_photos_are_refused(
    store: FeatureStore, model_dir: Path, tmp_path: Path, broken: Breaker, said: str
) -> None:
    with pytest.raises(InputError, match=said):
        views = broken(tmp_path / "view", store)
        build_index(views, [model_dir], tmp_path / "index", device="cpu")


def test_models_that_do_not_go_together_are_refused(
    store: FeatureStore, model_dir: Path, tmp_path: Path
) -> None:
    terms = {term: i for i, term in enumerate([*SPECIAL, "tiger"])}
    inner = Tokenizer(models.WordPiece(terms, unk_token="[UNK]"))
    inner.normalizer = normalizers.BertNormalizer()
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    second = save_model(tmp_path / "model", WordPieceTokenizer(inner))
    with pytest.raises(InputError, match=r"another vocabulary .* \(term 6 is 'tiger' instead of"):
        build_index([store], [model_dir, second], tmp_path / "index", device="cpu")
    with pytest.raises(InputError, match="no --model"):
        build_index([store], [], tmp_path / "index", device="cpu")


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    photos = tmp_path / "photos"
    photos.mkdir()
    for i in range(3):
        pixels = np.random.default_rng(i).integers(0, 255, (20, 30, 3), np.uint8)
        Image.fromarray(pixels).save(photos / f"{i}.png")
    return photos


def test_views_are_extracted_from_photos(photos: Path, model_dir: Path, tmp_path: Path) -> None:
    assert augmentation_names(1) == ["plain"]
    assert augmentation_names(4) == ["plain", "flip", "crop:1", "crop:2"]
    stages: list[tuple[str, int, int]] = []
    out = tmp_path / "index"
    views = open_features(
        [photos], [model_dir], out, views=3, progress=lambda *stage: stages.append(stage)
    )
    assert [view.folder.relative_to(tmp_path / "index.features").name for view in views] == [
        "plain",
        "flip",
        "crop:1",
    ]
    assert [store.augmentation for store in views] == ["plain", "flip", "crop:1"]
    assert stages[-1] == ("extract", 9, 9)
    first: ImageFeatures = views[0][0]
    cells = int(len(first.features) ** 0.5)
    grid = first.features[:-1].reshape(cells, cells, -1)
    mirrored = views[1][0].features[:-1].reshape(cells, cells, -1)
    assert np.abs(grid - mirrored).max() > 0.1
    manifest = build_index(views, [model_dir], out, device="cpu")
    assert manifest.images == 3 and len(manifest.features) == 3


def test_views_are_for_photos(
    photos: Path, store: FeatureStore, model_dir: Path, tmp_path: Path
) -> None:
    for folders, views, said in [
        ([store.folder], 2, "--views is for a folder of photos"),
        ([store.folder, photos], None, "photos is not a feature store"),
        ([photos, photos], None, "photos is not a feature store"),
    ]:
        with pytest.raises(InputError, match=said):
            open_features(folders, [model_dir], tmp_path / "index", views=views)


def test_models_of_other_features_are_refused_before_any_photo_is_read(
    photos: Path, model_dir: Path, tokenizer: WordPieceTokenizer, tmp_path: Path
) -> None:
    source = replace(SOURCE, image_size=64)
    second = save_model(tmp_path / "model", tokenizer, source=source)
    with pytest.raises(InputError, match=r"takes other features than .*image_size: 32 against 64"):
        open_features([photos], [model_dir, second], tmp_path / "index")
    assert not (tmp_path / "index.features").exists()


def test_an_index_or_an_absent_folder_is_no_source(
    index: Path, model_dir: Path, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="is an index already"):
        open_features([index], [model_dir], tmp_path / "index")
    with pytest.raises(InputError, match="does not exist"):
        open_features([tmp_path / "absent"], [model_dir], tmp_path / "index")


def test_what_is_no_model_is_refused_at_once(
    photos: Path, store: FeatureStore, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("{}")
    (tmp_path / "bert").mkdir()
    (tmp_path / "bert" / "config.json").write_text('{"model_type": "bert"}')
    for name, said in [
        (tmp_path / "absent", "does not exist"),
        ("absent", "does not exist"),
        (tmp_path / "file", "is not a folder"),
        (store.folder, "has no config.json"),
        (tmp_path / "bert", "config.json is of a bert"),
    ]:
        for sources in ([photos], [store.folder]):
            with pytest.raises(InputError, match=f"--model {name} .*{said}"):
                views = open_features(sources, [name], tmp_path / "index")
                build_index(views, [name], tmp_path / "index", device="cpu")
