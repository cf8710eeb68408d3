"""Images are added, deleted and described as an index's own, one by one too, or refused."""

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from indexer.build import build_index
from indexer.encoding.impacts import Quantiser, WeightReader
from indexer.engines.open import open_index
from indexer.manifest import Manifest
from indexer.postings import ImagePostings, Inputs, Postings
from indexer.settings import PruningSettings
from indexer.store.changes import Add, Change, Delete, MetadataChange
from indexer.store.commit import read_commit
from indexer.store.snapshot import Snapshot
from indexer.update import images as module
from indexer.update.images import (
    AddReport,
    ResidentEncoder,
    UpdateReport,
    add_images,
    delete_images,
    update_metadata,
)
from indexer.update.writer import open_writer
from sparta.errors import InputError
from sparta.features.store import FeatureStore
from tests.indexer.live_index import QUERIES, LiveReference, answer, assert_same
from tests.indexer.tiny import save_model, write_store
from tests.indexer.vocabulary import TOKENIZER
from tests.stores import kept_stores


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
        top_n=4, frequencies=str(queries) if asked == "queries" else asked, frequency_power=0.5
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
        index, copies, [model], frequencies=given, metadata=about, batch_size=32, device="cpu"
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
    pruning = PruningSettings(top_n=4, frequencies=str(queries))
    build_index([store], [model_dir], index, pruning, device="cpu")
    manifest = (index / "manifest.json").read_text()
    other = save_model(tmp_path / "other", TOKENIZER, seed=1)
    flipped = write_store(tmp_path / "flip", seed=1, augmentation="flip")

    def refused(problem: str, stores: list[FeatureStore], model: Path, asked: Path | None) -> None:
        with pytest.raises(InputError, match=problem):
            add_images(index, stores, [model], frequencies=asked, device="cpu")
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


def test_a_photo_is_encoded_as_its_id_says(photos: Path, model_dir: Path, tmp_path: Path) -> None:
    """In three augmentations, the last of which depends on the id."""
    index = tmp_path / "index"
    stores = kept_stores(photos, [model_dir], index, augmentations=3)
    build_index(stores, [model_dir], index, PruningSettings(top_n=5), device="cpu")
    upload = Path(shutil.copy(photos / "1.png", tmp_path / "1f2e.png"))
    encode = ResidentEncoder(index, [model_dir], device="cpu")
    for _ in range(2):
        assert_equal(encode.photo("1.png", upload), image_of(index, "1.png"))
    upload.write_bytes(b"")
    with pytest.raises(InputError, match="the photo cannot be used: the file is empty"):
        encode.photo("a", upload)


def test_features_are_encoded_as_those_of_the_index(
    sparse_index: Path, store: FeatureStore, model_dir: Path
) -> None:
    encode = ResidentEncoder(sparse_index, [model_dir], device="cpu")
    for image in list(store)[:3]:
        assert_equal(encode.features(image), image_of(sparse_index, image.image_id))
    with pytest.raises(InputError, match=r"the features are \[\d+, 3\], not \[regions, \d+\]"):
        encode.features(replace(image, features=image.features[:, :3]))


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


def test_images_are_deleted_all_together_or_not_at_all(
    built: Path, small: Postings, right: LiveReference
) -> None:
    for absent, named in ((["x"], "'x':"), (["x", "y", "z"], "'x' and 2 more:")):
        with pytest.raises(InputError, match=rf"index has no image {named} .*nothing was deleted"):
            delete_images(built, [small.ids[0], *absent])
    assert_same(open_index(built), right.searcher())
    gone = [small.ids[i] for i in (0, 3, 3)]
    assert delete_images(built, gone) == 10
    right.apply(map(Delete, gone))
    assert_same(open_index(built), right.searcher())
    assert delete_images(built, small.ids[4:]) == 2
    assert delete_images(built, small.ids[1:3]) == 0
    assert open_index(built).search("dog the").unknown == ["dog"]  # "the" is a function word


@pytest.mark.parametrize("at_once", [module.AT_ONCE, 3])
def test_fields_are_merged_and_null_removes_one(
    built: Path,
    small: Postings,
    right: LiveReference,
    monkeypatch: pytest.MonkeyPatch,
    at_once: int,
) -> None:
    monkeypatch.setattr(module, "AT_ONCE", at_once)
    first, second, third, *others = small.ids
    about: dict[str, dict[str, Any]] = {
        first: {"album": "sea", "width": None},
        "absent": {"a": 1},
        second: {"b": None},
    }
    about |= {third: {}} | {image_id: {"number": i} for i, image_id in enumerate(others)}
    steps: list[tuple[str, int, int]] = []
    report = update_metadata(built, about, lambda *step: steps.append(step))
    assert report == UpdateReport(changed=10, unchanged=2, unknown=["absent"])
    assert steps[-1] == ("update", 13, 13)
    right.apply([MetadataChange(first, {"album": "sea"})])
    for i, one in enumerate(others):
        right.apply([MetadataChange(one, right.images[one].metadata | {"number": i})])
    assert_same(open_index(built), right.searcher())
    assert update_metadata(built, {first: {"album": "sea"}}).unchanged == 1
    with pytest.raises(InputError, match=r"metadata of .* cannot be JSON"):
        update_metadata(built, {second: {"x": float("nan")}})


NOTHING = np.empty(0, np.int32)
GOOD = ImagePostings(
    "a.jpg",
    {"width": 3},
    np.array([0, 4, 9], np.int32),
    np.array([1, 15, 3], np.int32),
    np.array([-1, 0, 2], np.int16),
    Inputs(np.ones((2, 4), np.float32), np.array([9], np.int32), np.array([1], np.int16)),
)


def checked(folder: Path, *changes: Change) -> None:
    with open_writer(folder) as writer:
        end = writer.write([])
        try:
            writer.check(changes)
        except InputError:
            with pytest.raises(InputError):
                writer.write(changes)
            assert writer.write([]) == end
            raise
        writer.write(changes)


def test_good_changes_are_written(built: Path) -> None:
    none = Inputs(np.empty((0, 4), np.float32), NOTHING, NOTHING.astype(np.int16))
    empty = ImagePostings("é" * 16_383, {}, NOTHING, NOTHING, NOTHING.astype(np.int16), none)
    described = MetadataChange("a.jpg", {"é": [1, None]})
    checked(built, Add(GOOD), described, Delete("a.jpg"), Add(empty))


@pytest.mark.parametrize(
    ("part", "problem"),
    [
        ({"terms": [0, 4, 999]}, "a term is not one of the"),
        ({"terms": [-1, 4, 9]}, "a term is not one of the"),
        ({"terms": [4, 4, 9]}, "its terms do not rise"),
        ({"terms": [4, 9]}, "other numbers of terms, impacts and positions"),
        ({"impacts": [0, 1, 1]}, "an impact is not from 1 to 255"),
        ({"impacts": [256, 1, 1]}, "an impact is not from 1 to 255"),
        ({"positions": [3, 0, 0]}, "a term was won by a position that it lacks"),
        ({"positions": [-2, 0, 0]}, "a term was won by a position that it lacks"),
        ({"label_terms": [999]}, "a label token is not one of the"),
        ({"label_regions": [2]}, "a label token is of a region that it lacks"),
        ({"label_regions": []}, "other numbers of label tokens and of their regions"),
    ],
)
def test_images_that_do_not_fit_are_named(
    built: Path, part: dict[str, list[int]], problem: str
) -> None:
    arrays: dict[str, Any] = {name: np.array(value, np.int32) for name, value in part.items()}
    if arrays.keys() & {"label_terms", "label_regions"}:
        arrays = {"inputs": replace(GOOD.inputs, **arrays)}
    with pytest.raises(InputError, match=rf"^image 'a.jpg' cannot be written: .*{problem}"):
        checked(built, Delete("x"), Add(replace(GOOD, **arrays)))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (Delete(""), "image id '' has 0 bytes"),
        (Delete("é" * 16_384), "has 32768 bytes, not 1 to 32766"),
        (Delete("\udcff"), "is not UTF-8 text"),
        (MetadataChange("b", {}), "index has no image 'b'"),
        (Add(replace(GOOD, metadata={"a": float("nan")})), "metadata of 'a.jpg' cannot be JSON"),
        (Add(replace(GOOD, metadata={"a": object()})), "metadata of 'a.jpg' cannot be JSON"),
    ],
)
def test_ids_and_metadata_that_cannot_be_stored(built: Path, change: Change, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        checked(built, change)


def test_changes_are_checked_in_their_order(built: Path, small: Postings) -> None:
    first = small.ids[0]
    with pytest.raises(InputError, match=rf"has no image '{first}'"):
        checked(built, Delete(first), MetadataChange(first, {}))
