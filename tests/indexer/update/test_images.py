"""Images are added to an index as its own were encoded, one by one too, and what is refused."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from indexer.build import build_index
from indexer.encoding.features import open_stores
from indexer.encoding.impacts import Quantiser, WeightReader
from indexer.engines.open import open_index, snapshot_of
from indexer.manifest import Manifest
from indexer.postings import ImagePostings, Postings
from indexer.settings import PruningSettings
from indexer.store.commit import read_commit
from indexer.store.snapshot import Snapshot
from indexer.update.images import AddReport, ResidentEncoder, add_images, delete_images
from sparta.errors import InputError
from sparta.features.record import ImageFeatures
from sparta.features.store import FeatureStore
from sparta.tokenizer import WordPieceTokenizer
from tests.indexer.live_index import QUERIES, answer, assert_same
from tests.indexer.tiny import save_model, write_store
from tests.indexer.vocabulary import TOKENIZER
from tests.reference.searcher import ReferenceSearcher


def postings_of(index: Path) -> Postings:
    images = Snapshot.open(index)
    return Postings.of(list(images.images(range(images.documents))))


def test_the_index_s_images_replace_themselves_without_a_change(
    store: FeatureStore, model_dir: Path, sparse_index: Path, tmp_path: Path
) -> None:
    index = shutil.copytree(sparse_index, tmp_path / "index")
    tokenizer = WordPieceTokenizer.from_folder(index)
    reference = ReferenceSearcher(postings_of(index), tokenizer)
    report = add_images(index, [store], [model_dir], batch_size=3, device="cpu")
    assert report == AddReport(added=0, replaced=21, images=21)
    after = open_index(index)
    assert_same(after, reference)
    assert snapshot_of(after).commit.version == 1


@pytest.mark.parametrize("stores", [1, 2])
@pytest.mark.parametrize("asked", ["model", "queries", "none"])
def test_what_was_left_out_comes_back(
    store: FeatureStore, tmp_path: Path, asked: str, stores: int
) -> None:
    captions = ["a red dog", "dogs on a beach", "the ball"]
    model = save_model(tmp_path / "model", TOKENIZER, captions=captions)
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


def test_other_models_stores_and_queries_are_refused(
    store: FeatureStore, model_dir: Path, tmp_path: Path
) -> None:
    queries, others = tmp_path / "queries", tmp_path / "others"
    queries.write_text("a cat\n")
    others.write_text("a dog\n")
    index = tmp_path / "index"
    pruning = PruningSettings(top_n=4, asked=str(queries))
    build_index([store], [model_dir], index, pruning, device="cpu")
    manifest = (index / "manifest.json").read_text()
    other = save_model(tmp_path / "other", TOKENIZER, seed=1)
    flipped = write_store(tmp_path / "flip", seed=1, augmentation="flip")

    def refused(problem: str, stores: list[FeatureStore], model: Path, asked: Path | None) -> None:
        with pytest.raises(InputError, match=problem):
            add_images(index, stores, [model], asked=asked, device="cpu")
        assert (index / "manifest.json").read_text() == manifest

    refused(r"index was built with 1 model \(\w+\), --model gives", [store], other, queries)
    refused("was built with 1 feature stores of each", [store, flipped], model_dir, queries)
    refused("was built with a file of queries: give it as --frequencies", [store], model_dir, None)
    refused(r"others is not the file of queries that", [store], model_dir, others)
    assert not read_commit(index).version


def image_of(index: Path, image_id: str) -> ImagePostings:
    images = Snapshot.open(index)
    document = images.document(image_id)
    assert document is not None
    [image] = images.images([document])
    return image


def assert_equal(found: ImagePostings, right: ImagePostings) -> None:
    assert (found.image_id, found.metadata) == (right.image_id, right.metadata)
    for name in ("terms", "impacts", "positions"):
        np.testing.assert_array_equal(getattr(found, name), getattr(right, name))
    np.testing.assert_allclose(found.inputs.boxes, right.inputs.boxes, atol=1e-4)
    np.testing.assert_array_equal(found.inputs.label_terms, right.inputs.label_terms)


@pytest.fixture
def augmented(photos: Path, model_dir: Path, tmp_path: Path) -> Path:
    """An index of photos in three augmentations, the last of which depends on the id."""
    out = tmp_path / "index"
    stores = open_stores([photos], [model_dir], "visual_sparta", out, augmentations=3, device="cpu")
    build_index(stores, [model_dir], out, PruningSettings(top_n=5), device="cpu")
    return out


def encoder(index: Path, model: Path) -> ResidentEncoder:
    return ResidentEncoder(index, [model], device="cpu")


def test_a_photo_is_encoded_as_its_id_says(
    augmented: Path, photos: Path, model_dir: Path, tmp_path: Path
) -> None:
    upload = shutil.copy(photos / "1.png", tmp_path / "1f2e.png")
    encode = encoder(augmented, model_dir)
    for _ in range(2):
        assert_equal(encode.photo("1.png", Path(upload)), image_of(augmented, "1.png"))


def test_features_are_encoded_as_those_of_the_index(
    sparse_index: Path, store: FeatureStore, model_dir: Path
) -> None:
    encode = encoder(sparse_index, model_dir)
    for image in list(store)[:3]:
        assert_equal(encode.features(image), image_of(sparse_index, image.image_id))


def test_features_of_another_kind_are_refused(
    sparse_index: Path, store: FeatureStore, model_dir: Path
) -> None:
    image = store[0]
    narrow = ImageFeatures(
        "a", image.features[:, :3], image.boxes, image.labels, image.attributes, 8, 8
    )
    with pytest.raises(InputError, match=r"the features are \[\d+, 3\], not \[regions, \d+\]"):
        encoder(sparse_index, model_dir).features(narrow)


def test_single_photos_that_cannot_be_used_are_named(
    augmented: Path, photos: Path, model_dir: Path
) -> None:
    (photos / "empty.png").touch()
    with pytest.raises(InputError, match="the photo cannot be used: the file is empty"):
        encoder(augmented, model_dir).photo("a", photos / "empty.png")


def test_term_weights_become_impacts_and_others_are_refused(sparse_index: Path) -> None:
    read = WeightReader(sparse_index, TOKENIZER.vocabulary)
    found = read("a.jpg", {"dog": 0.5, "beach": 2.0})
    manifest = Manifest.open(sparse_index)
    quantiser = Quantiser(manifest.scale, manifest.bits)
    ids = TOKENIZER.vocabulary.index
    terms = sorted([(ids("dog"), 0.5), (ids("beach"), 2.0)])
    assert found.terms.tolist() == [term for term, _ in terms]
    scores = np.array([score for _, score in terms], np.float32)
    np.testing.assert_array_equal(found.impacts, quantiser.impacts(scores))
    assert found.positions.tolist() == [-1, -1]
    assert read("a", {}).terms.tolist() == []
    assert read("a", {"dog": 1e300}).impacts.tolist() == [2**manifest.bits - 1]
    with pytest.raises(InputError, match="term 'qqq' is not in the vocabulary"):
        read("a", {"qqq": 1.0})
    for wrong in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(InputError, match=r"the weight of term 'dog' is .*, not a positive"):
            read("a", {"dog": wrong})


def test_no_network_is_needed() -> None:
    """A slim installation has none of these packages."""
    code = (
        "import sys; sys.modules |= dict.fromkeys(['safetensors', 'openvino', 'torch']); "
        "import server.writing.app, server.commands.serve, server.app"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
