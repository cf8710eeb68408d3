"""Dense models' vectors of an index: made, kept up to date, and refused."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from indexer.dense.build import add_dense, name_models
from indexer.dense.manifest import DenseManifest, dense_names
from indexer.dense.vectors import VectorIndexKind
from indexer.engines.open import open_backend
from indexer.manifest import Manifest
from indexer.store.changes import Add, Delete
from indexer.store.images import origin_of
from indexer.store.snapshot import Snapshot
from indexer.update.dense import DenseFollower, WrittenImages
from indexer.update.images import add_images
from indexer.update.writer import open_writer
from indexer.verify import verify_index
from sparta.errors import InputError
from sparta.features.store import FeatureStore
from sparta.vse.model import VseModel
from tests.indexer.sealed import change
from tests.indexer.tiny import SOURCE, same_but, write_store
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


def scores(index: Path, name: str = "mine") -> dict[str, float]:
    with closing(open_backend(index, name)) as searcher:
        return {hit.image_id: hit.score for hit in searcher.search(QUERY, 99).hits}


@pytest.mark.parametrize("kind", ["flat", "hnsw"])
@pytest.mark.parametrize("views", [1, 3])
def test_the_part_answers_as_its_model(
    index: Path,
    store: FeatureStore,
    dense_model: Path,
    multi_view: Path,
    views: int,
    kind: VectorIndexKind,
) -> None:
    model = multi_view if views == 3 else dense_model
    seen: list[tuple[str, int, int]] = []
    made = add_dense(
        index,
        store,
        "mine",
        model,
        kind=kind,
        batch_size=4,
        device="cpu",
        progress=lambda *step: seen.append(step),
    )
    assert seen == [("embed mine", done, 21) for done in (4, 8, 12, 16, 20, 21)]
    assert made == DenseManifest.open(index, "mine", Manifest.open(index))
    assert (made.images, made.views, made.dimension, made.kind) == (21, views, 16, kind)
    assert made.features == made.indexed_features == store.fingerprint
    assert dense_names(index) == ["mine"]
    searcher = open_backend(index, "mine")
    for query in ["a dog", "red zebra ball", "qqq"]:
        rows = slow_scores(model, store, query)
        hits = searcher.search(query, 100).hits
        assert sorted(hit.image_id for hit in hits) == store.ids
        for hit in hits:
            own = rows[store.index(hit.image_id)]
            assert hit.score == pytest.approx(max(own), abs=1e-5)
            if views == 1:
                assert hit.view is None
            else:
                assert hit.view is not None and own[hit.view] == pytest.approx(max(own), abs=1e-5)
    searcher.close()


def test_a_part_is_replaced_at_once_or_not_at_all(
    index: Path,
    store: FeatureStore,
    dense_model: Path,
    multi_view: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    old = add_dense(index, store, "mine", dense_model, device="cpu")
    embed, batches = VseModel.encode_images, list[Any]()

    def dying(model: VseModel, batch: Any) -> torch.Tensor:
        if len(batches) == 2:
            raise KeyboardInterrupt
        batches.append(batch)
        return embed(model, batch)

    with monkeypatch.context() as patch:
        patch.setattr(VseModel, "encode_images", dying)
        with pytest.raises(KeyboardInterrupt):
            add_dense(index, store, "mine", multi_view, batch_size=4, device="cpu")
    with monkeypatch.context() as patch:
        patch.setattr(VseModel, "save_pretrained", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            add_dense(index, store, "mine", multi_view, device="cpu")
    assert dense_names(index) == ["mine"]
    assert DenseManifest.open(index, "mine", Manifest.open(index)) == old
    new = add_dense(index, store, "mine", multi_view, device="cpu")
    assert DenseManifest.open(index, "mine", Manifest.open(index)) == new != old
    assert [path.name for path in (index / "dense").iterdir()] == ["mine"]


def test_other_images_other_features_other_models_and_no_index_are_refused(
    index: Path, store: FeatureStore, dense_model: Path, model_dir: Path, tmp_path: Path
) -> None:
    larger = save_dense_model(tmp_path / "64", source=replace(SOURCE, image_size=64))
    photos = save_dense_model(tmp_path / "photos")
    config = json.loads((photos / "config.json").read_text())
    config["vision"] = {"model_type": "resnet"}
    (photos / "config.json").write_text(json.dumps(config))
    for model, said in [
        (larger, "holds other features than --model .*64 was trained on"),
        (photos, "takes photos, and those of .* are not where it records them .nowhere."),
        (model_dir, f"--model {model_dir} is not a dense model: .* of a visual_sparta"),
        (tmp_path / "absent", "does not exist: give a model's folder"),
    ]:
        with pytest.raises(InputError, match=said):
            add_dense(index, store, "mine", model, device="cpu")
    other = same_but(tmp_path / "store", store, drop="0/3.jpg")
    with pytest.raises(InputError, match=r"has other images than .*: image 3 is 0/4\.jpg instead"):
        add_dense(index, other, "mine", dense_model, device="cpu")
    assert not (index / "dense").exists()
    with pytest.raises(InputError, match=r"is not an index yet: build it"):
        add_dense(tmp_path / "none", store, "mine", dense_model, device="cpu")


def test_vectors_that_are_not_finite_are_refused(
    index: Path, store: FeatureStore, tmp_path: Path
) -> None:
    model = VseModel.from_pretrained(save_dense_model(tmp_path / "model"))
    with torch.no_grad():
        model.get_parameter("visual_projections.0.linear.bias").fill_(float("nan"))
    model.save_pretrained(tmp_path / "model")
    with pytest.raises(InputError, match="are not finite"):
        add_dense(index, store, "mine", tmp_path / "model", device="cpu")
    assert dense_names(index) == []


def test_a_live_index_is_brought_up_to_date(
    index: Path,
    store: FeatureStore,
    changed: FeatureStore,
    dense_model: Path,
    model_dir: Path,
    tmp_path: Path,
) -> None:
    """Images are embedded in the content that the index has, whatever the store has."""
    add_dense(index, store, "mine", dense_model, device="cpu")
    gone, nameless, *_ = store.ids
    add_images(index, [same_but(tmp_path / "part", changed, drop=gone)], [model_dir], device="cpu")
    shutil.rmtree(index / "dense")  # an index without dense models until now
    with open_writer(index) as writer:
        snapshot = Snapshot.open(index)
        document = snapshot.document(nameless)
        assert document is not None
        [image] = snapshot.images([document])
        writer.write([Add(replace(image, origin=""))])
    new = best_scores(dense_model, changed)
    old = best_scores(dense_model, store)
    assert add_dense(index, store, "mine", dense_model, device="cpu").images == 1
    assert scores(index) == pytest.approx({gone: old[gone]}, abs=1e-5)
    made = add_dense(index, changed, "mine", dense_model, kind="hnsw", device="cpu")
    # Of the image that was as built there is no other content: the store's counts as that.
    right = {i: score for i, score in new.items() if i != nameless}
    assert scores(index) == pytest.approx(right, abs=1e-5)
    assert made.images == 20
    # What the store does not have is taken over, unless the model is another.
    only = same_but(tmp_path / "one", changed, drop=store.ids[5])
    add_dense(index, only, "mine", dense_model, device="cpu")
    assert scores(index) == pytest.approx(right, abs=1e-5)
    other = save_dense_model(tmp_path / "other", seed=9)
    assert add_dense(index, only, "mine", other, device="cpu").images == 19
    assert verify_index(index) == []
    with pytest.raises(InputError, match=r"has none of the images that are in .*index now"):
        with open_writer(index) as writer:
            writer.write([Delete(gone)])
        add_dense(index, store, "new", dense_model, device="cpu")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


Breaker = Callable[[Path], object]


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (lambda part: change(part, format_version=9), "index format 9"),
        (lambda part: change(part, images=20), "21 images of 16 numbers instead of 20 of 16"),
        (lambda part: change(part, indexed_features="0" * 32), "of features 000000000000 instead"),
        (lambda part: change(part, dimension=17), "21 images of 16 numbers instead of 21 of 17"),
        (lambda part: change(part, views=3), "7 images of 16 numbers instead of 21 of 16"),
        (lambda part: change(part, model="0" * 64), "the vectors are of 000000000000"),
        (lambda part: change(part, colour="red"), "fields missing or unknown: colour"),
        (lambda part: cut(part / "vectors.faiss"), "vectors.faiss has .* bytes instead of"),
        (lambda part: cut(part / "model/model.safetensors"), "model.safetensors has .* bytes"),
        (lambda part: (part / "model/tokenizer.json").unlink(), "tokenizer.json is missing"),
        (lambda part: (part / "manifest.json").unlink(), "no dense part .mine. .it has: none"),
    ],
)
def test_damaged_or_foreign_parts_are_refused(
    index: Path, store: FeatureStore, dense_model: Path, broken: Breaker, said: str
) -> None:
    add_dense(index, store, "mine", dense_model, device="cpu")
    broken(index / "dense" / "mine")
    with pytest.raises(InputError, match=said):
        open_backend(index, "mine")


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
    assert scores(index, "one") == pytest.approx(best_scores(dense_model, store), abs=1e-5)
    add_images(index, [changed], [model_dir], batch_size=3, device="cpu")
    one, views = (best_scores(model, changed) for model in (dense_model, multi_view))
    assert scores(index, "one") == pytest.approx(one, abs=1e-5)
    assert scores(index, "views") == pytest.approx(views, abs=1e-5)
    # What was embedded before is not embedded again, and the former features have their vectors.
    sizes = [path.stat().st_size for path in sorted(index.glob("dense/*/added-*"))]
    for again in (changed, store):
        add_images(index, [again], [model_dir], batch_size=3, device="cpu")
        right = best_scores(dense_model, again)
        assert scores(index, "one") == pytest.approx(right, abs=1e-5)
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
    assert scores(index, "large") == {}
    right = best_scores(dense_model, changed)
    assert scores(index, "one") == pytest.approx(right, abs=1e-5)


def test_without_torch_images_are_written_all_the_same(
    index: Path,
    store: FeatureStore,
    dense_model: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    add_dense(index, store, "one", dense_model, device="cpu")
    image = store[0]
    written = WrittenImages(
        [image], [origin_of(image)], store.source, store.folder, None, [image.image_id]
    )
    with open_writer(index), monkeypatch.context() as patch:
        follower = DenseFollower(index)
        patch.setitem(sys.modules, "torch", None)
        follower.add(written)
        follower.add(written)
    [warned] = [r.message for r in caplog.records if "images have no vectors of one" in r.message]
    assert "torch is not installed" in warned


def test_names_come_from_the_model_or_the_command(dense_model: Path, multi_view: Path) -> None:
    assert name_models([str(dense_model), str(multi_view)]) == {
        "vse++": str(dense_model),
        "mv-vse": str(multi_view),
    }
    assert name_models([f"b={dense_model}", f"a={dense_model}"]) == {
        "b": str(dense_model),
        "a": str(dense_model),
    }
    for wrong, said in [
        ([str(dense_model), str(dense_model)], "are both named 'vse\\+\\+': .* NAME=MODEL"),
        ([f"x={dense_model}", f"x={multi_view}"], "are both named 'x'"),
        ([f"sparta={dense_model}"], "'sparta' cannot be a backend's name"),
        ([f"milvus={dense_model}"], "'milvus' cannot be"),
        ([f"a.b={dense_model}"], "'a.b' cannot be"),
        ([f"={dense_model}"], "'' cannot be"),
        (["./absent"], r"--model \./absent does not exist: give a model's folder"),
    ]:
        with pytest.raises(InputError, match=said):
            name_models(wrong)


def test_a_path_with_an_equals_sign_is_a_path(tmp_path: Path) -> None:
    folder = save_dense_model(tmp_path / "lr=0.1", "vse-inf")
    assert name_models([str(folder)]) == {"vse-inf": str(folder)}
    assert name_models([f"x={folder}"]) == {"x": str(folder)}
