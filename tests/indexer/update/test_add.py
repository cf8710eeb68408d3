"""Images added to an index are encoded as its own were."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

import pytest

from indexer.build import build_index
from indexer.manifest import Manifest
from indexer.postings import Postings
from indexer.search.lucene import LuceneSearcher
from indexer.search.open import open_index
from indexer.settings import PruningSettings
from indexer.update.add import AddReport, add_images
from indexer.update.delete import delete_images
from sparta.errors import InputError
from sparta.features.store import FeatureStore
from sparta.tokenizer import WordPieceTokenizer
from tests.indexer.live_index import QUERIES, assert_same
from tests.indexer.search.queries import answer
from tests.indexer.tiny import same_but, save_model, write_store
from tests.reference.searcher import ReferenceSearcher


def postings_of(searcher: LuceneSearcher, tokenizer: WordPieceTokenizer) -> Postings:
    index = searcher.index
    images = list(index.images(range(index.documents), tokenizer.vocabulary))
    return Postings.of(sorted(images, key=lambda image: image.image_id))


def test_the_index_s_images_replace_themselves_without_a_change(
    store: FeatureStore, model_dir: Path, sparse_index: Path, tmp_path: Path
) -> None:
    index = shutil.copytree(sparse_index, tmp_path / "index")
    with closing(open_index(index)) as before:
        reference = ReferenceSearcher(postings_of(before, before.tokenizer), before.tokenizer)
    report = add_images(index, [store], [model_dir], batch_size=3, device="cpu")
    assert report == AddReport(added=0, replaced=21, images=21)
    after = open_index(index)
    assert_same(after, reference)
    assert after.commit.version == 2


@pytest.mark.parametrize("stores", [1, 2])
@pytest.mark.parametrize("asked", ["model", "queries", "none"])
def test_what_was_left_out_comes_back(
    store: FeatureStore,
    tokenizer: WordPieceTokenizer,
    tmp_path: Path,
    asked: str,
    stores: int,
) -> None:
    captions = ["a red dog", "dogs on a beach", "the ball"]
    model = save_model(tmp_path / "model", tokenizer, captions=captions)
    queries = tmp_path / "queries"
    queries.write_text("a cat\nred ball\n")
    flipped = write_store(tmp_path / "flip", seed=1, augmentation="flip")
    copies = [store, flipped][:stores]
    pruning = PruningSettings(
        top_n=4, asked=str(queries) if asked == "queries" else asked, asked_power=0.5
    )
    whole, index = tmp_path / "whole", tmp_path / "index"
    build_index(copies, [model], whole, pruning, device="cpu")
    shutil.copytree(whole, index)
    right = open_index(whole)
    left_out = store.ids[::2]
    assert delete_images(index, left_out) == 10
    about = {left_out[0]: {"taken": "2024"}}
    given = queries if asked == "queries" else None
    report = add_images(
        index, copies, [model], asked=given, metadata=about, batch_size=32, device="cpu"
    )
    assert report == AddReport(added=11, replaced=10, images=21)
    found = open_index(index)
    for query in QUERIES:
        assert answer(found.search(query, 30)) == answer(right.search(query, 30))
    assert found.metadata(left_out[0]) == {**right.metadata(left_out[0]), "taken": "2024"}


def test_images_with_new_ids(
    store: FeatureStore, model_dir: Path, sparse_index: Path, tmp_path: Path
) -> None:
    index = shutil.copytree(sparse_index, tmp_path / "index")
    renamed = same_but(tmp_path / "renamed", store, rename="z/new.jpg")
    seen: list[tuple[str, int, int]] = []
    report = add_images(
        index, [renamed], [model_dir], device="cpu", progress=lambda *step: seen.append(step)
    )
    assert report == AddReport(added=1, replaced=20, images=22)
    assert [step for step in seen if step[0] == "encode"] == [("encode", 0, 21), ("encode", 21, 21)]


def test_other_models_stores_and_queries_are_refused(
    store: FeatureStore, model_dir: Path, tokenizer: WordPieceTokenizer, tmp_path: Path
) -> None:
    queries, others = tmp_path / "queries", tmp_path / "others"
    queries.write_text("a cat\n")
    others.write_text("a dog\n")
    index = tmp_path / "index"
    pruning = PruningSettings(top_n=4, asked=str(queries))
    build_index([store], [model_dir], index, pruning, device="cpu")
    manifest = (index / "manifest.json").read_text()
    other = save_model(tmp_path / "other", tokenizer, seed=1)
    flipped = write_store(tmp_path / "flip", seed=1, augmentation="flip")

    def refused(problem: str, stores: list[FeatureStore], model: Path, asked: Path | None) -> None:
        with pytest.raises(InputError, match=problem):
            add_images(index, stores, [model], asked=asked, device="cpu")
        assert (index / "manifest.json").read_text() == manifest

    refused(r"index was built with 1 model \(\w+\), --model gives", [store], other, queries)
    refused("was built with 1 feature stores of each", [store, flipped], model_dir, queries)
    refused("was built with a file of queries: give it as --asked", [store], model_dir, None)
    refused(r"others is not the file of queries that", [store], model_dir, others)
    assert not Manifest.open(index).live
