"""Dense models' vectors of an index: made, kept up to date, searched exactly, and refused."""

import json
import shutil
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from indexer.dense.build import add_dense, name_models
from indexer.dense.manifest import DenseManifest, dense_names
from indexer.dense.vectors import CONTENT_IDS as FILE
from indexer.dense.vectors import AddedRows, ImageVectors, VectorIndexKind, read_content_ids
from indexer.engines.open import open_backend
from indexer.manifest import Manifest
from indexer.store.changes import Add, Delete
from indexer.store.images import content_id_of
from indexer.store.snapshot import Snapshot
from indexer.update.images import AddReport, DenseFollower, WrittenImages, add_images
from indexer.update.writer import open_writer
from indexer.verify import verify_index
from sparta.errors import InputError
from sparta.features.store import FeatureStore
from sparta.vse.model import VseModel
from tests.indexer.random_postings import change_manifest
from tests.indexer.tiny import SOURCE, same_but, write_store
from tests.indexer.tiny_dense import LETTERS, random_vectors, save_dense_model, slow_scores


def filled(vectors: NDArray[np.float32], kind: VectorIndexKind = "flat") -> ImageVectors:
    made = ImageVectors.create(vectors.shape[2], vectors.shape[1], kind)
    for start in range(0, len(vectors), 17):
        made.add(vectors[start : start + 17])
    return made


@pytest.mark.parametrize("views", [1, 3])
def test_equal_vectors_tie_whatever_their_numbers_and_places(views: int) -> None:
    random = np.random.default_rng(0)
    vectors = random.standard_normal((300, views, 100)).astype(np.float32)
    twins = np.sort(random.choice(300, 40, replace=False))
    vectors[twins] = vectors[twins[0]]
    query = vectors[twins[0], -1] + random.standard_normal(100).astype(np.float32) * 0.1
    found = filled(vectors).nearest(query, 25)
    assert found.images.tolist() == twins[:25].tolist()
    assert len(set(found.scores.tolist())) == 1


def test_files_that_cannot_be_read_and_missing_faiss_are_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, content in (("vectors", b"nothing of the kind"), (FILE, b"something else")):
        for present in (False, True):
            if present:
                (tmp_path / name).write_bytes(content)
            with pytest.raises(InputError, match=f"{name} (cannot be read|is damaged)"):
                if name == FILE:
                    read_content_ids(tmp_path)
                else:
                    ImageVectors.open(tmp_path / name, views=1)
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(InputError, match=r"pip install '.*\[dense\]'"):
        ImageVectors.create(8, 1)


CONTENT_IDS = [digit * 32 for digit in "0123456789"]
RECORD = 40  # bytes


@pytest.fixture
def rows(tmp_path: Path) -> AddedRows:
    (tmp_path / "manifest.json").write_text("{}")
    return AddedRows(tmp_path, 3, len(LETTERS))


def test_a_part_that_is_made_anew_has_no_rows(rows: AddedRows, tmp_path: Path) -> None:
    vectors = random_vectors(10, 3)
    assert rows.content_ids() == [] and rows.vectors(0).shape == (0, 3, 8)
    rows.append(CONTENT_IDS[:4], vectors[:4])
    rows.append(CONTENT_IDS[4:], vectors[4:])
    assert (rows.vectors(10, checked=4) == vectors).all()
    (tmp_path / "manifest.json").write_text("{ }")
    assert AddedRows(tmp_path, 3, len(LETTERS)).content_ids() == []
    assert rows.content_ids() == CONTENT_IDS


@pytest.mark.parametrize(
    ("cut", "zeros", "left"),
    [(1, 0, 3), (RECORD - 1, 0, 3), (RECORD, 0, 3), (0, 2 * RECORD, 4)],
)
def test_what_a_killed_writer_left_is_cut_off(
    rows: AddedRows, cut: int, zeros: int, left: int
) -> None:
    """The vectors were written, their records not all; a file system may have made room."""
    vectors = random_vectors(10, 3)
    rows.append(CONTENT_IDS[:4], vectors[:4])
    data = rows.content_id_file.read_bytes()
    rows.content_id_file.write_bytes(data[: len(data) - cut] + bytes(zeros))
    assert rows.content_ids() == CONTENT_IDS[:left]
    rows.append(CONTENT_IDS[8:], vectors[8:])
    assert rows.content_ids() == [*CONTENT_IDS[:left], *CONTENT_IDS[8:]]
    assert (rows.vectors(left + 2) == vectors[[*range(left), 8, 9]]).all()


def change(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("damage", "file"),
    [
        (lambda rows: change(rows.content_id_file, RECORD + 3), "content_ids"),
        (lambda rows: change(rows.vector_file, 3 * 8 * 4 + 3), "vectors"),
        (lambda rows: rows.vector_file.unlink(), "vectors"),
        (lambda rows: rows.vector_file.write_bytes(b"short"), "vectors"),
    ],
)
def test_damage_of_added_rows_is_reported(
    rows: AddedRows, damage: Callable[[AddedRows], object], file: str
) -> None:
    rows.append(CONTENT_IDS[:4], random_vectors(4, 3))
    damage(rows)
    with pytest.raises(InputError, match=f"{file} is damaged: add the dense part again"):
        rows.vectors(len(rows.content_ids()))


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


def assert_embedded(index: Path, model: Path, store: FeatureStore, name: str = "mine") -> None:
    """Compare a part of the index with what a model makes of a store."""
    assert scores(index, name) == pytest.approx(best_scores(model, store), abs=1e-5)


Embed = Callable[..., DenseManifest]
Write = Callable[[FeatureStore], AddReport]


@pytest.fixture
def embed(index: Path, store: FeatureStore, dense_model: Path) -> Embed:
    """Adds a dense part to the index, by default of its own features."""

    def run(
        features: FeatureStore = store, model: Path = dense_model, name: str = "mine", **more: Any
    ) -> DenseManifest:
        return add_dense(index, features, name, model, device="cpu", **more)

    return run


@pytest.fixture
def write(index: Path, model_dir: Path) -> Write:
    """Adds or replaces images."""
    return lambda features: add_images(index, [features], [model_dir], batch_size=3, device="cpu")


@pytest.mark.parametrize("kind", ["flat", "hnsw"])
@pytest.mark.parametrize("views", [1, 3])
def test_the_part_answers_as_its_model(
    index: Path, store: FeatureStore, embed: Embed, tmp_path: Path, views: int, kind: str
) -> None:
    model = save_dense_model(tmp_path / "model", "mv-vse", views, seed=1)
    seen: list[tuple[str, int, int]] = []
    made = embed(model=model, kind=kind, batch_size=4, progress=lambda *step: seen.append(step))
    assert seen == [("embed mine", done, 21) for done in (4, 8, 12, 16, 20, 21)]
    assert made == DenseManifest.open(index, "mine", Manifest.open(index))
    assert (made.images, made.views, made.dimension, made.kind) == (21, views, 16, kind)
    assert made.features == made.indexed_features == store.fingerprint
    assert dense_names(index) == ["mine"]
    assert_embedded(index, model, store)


@pytest.mark.parametrize("fails", ["encode_images", "save_pretrained"])
def test_a_part_is_replaced_at_once_or_not_at_all(
    index: Path, embed: Embed, multi_view: Path, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    old = embed()
    with monkeypatch.context() as patch, pytest.raises(ZeroDivisionError):
        patch.setattr(VseModel, fails, lambda *_: 1 / 0)
        embed(model=multi_view, batch_size=4)
    assert dense_names(index) == ["mine"]
    assert DenseManifest.open(index, "mine", Manifest.open(index)) == old
    new = embed(model=multi_view)
    assert DenseManifest.open(index, "mine", Manifest.open(index)) == new != old
    assert [path.name for path in (index / "dense").iterdir()] == ["mine"]


def test_other_images_other_features_other_models_and_no_index_are_refused(
    index: Path, store: FeatureStore, embed: Embed, model_dir: Path, tmp_path: Path
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
            embed(model=model)
    with pytest.raises(InputError, match=r"has other images than .*: image 3 is 0/4\.jpg instead"):
        embed(same_but(tmp_path / "store", store, drop="0/3.jpg"))
    assert not (index / "dense").exists()
    with pytest.raises(InputError, match=r"is not an index yet: build it"):
        add_dense(tmp_path / "none", store, "mine", larger, device="cpu")


def test_vectors_that_are_not_finite_are_refused(index: Path, embed: Embed, tmp_path: Path) -> None:
    model = VseModel.from_pretrained(save_dense_model(tmp_path / "model"))
    with torch.no_grad():
        model.get_parameter("visual_projections.0.linear.bias").fill_(float("nan"))
    model.save_pretrained(tmp_path / "model")
    with pytest.raises(InputError, match="are not finite"):
        embed(model=tmp_path / "model")
    assert dense_names(index) == []


def test_a_live_index_is_brought_up_to_date(
    index: Path,
    store: FeatureStore,
    changed: FeatureStore,
    embed: Embed,
    write: Write,
    dense_model: Path,
    tmp_path: Path,
) -> None:
    """Images are embedded in the content that the index has, whatever the store has."""
    embed()
    gone, nameless, *_ = store.ids
    write(same_but(tmp_path / "part", changed, drop=gone))
    shutil.rmtree(index / "dense")  # an index without dense models until now
    snapshot = Snapshot.open(index)
    document = snapshot.document(nameless)
    assert document is not None
    [image] = snapshot.images([document])
    with open_writer(index) as writer:
        writer.write([Add(replace(image, content_id=""))])
    assert embed().images == 1
    old = best_scores(dense_model, store)
    assert scores(index) == pytest.approx({gone: old[gone]}, abs=1e-5)
    assert embed(changed, kind="hnsw").images == 20
    # Of the image that was as built there is no other content: the store's counts as that.
    right = best_scores(dense_model, changed)
    del right[nameless]
    assert scores(index) == pytest.approx(right, abs=1e-5)
    # What the store does not have is taken over, unless the model is another.
    only = same_but(tmp_path / "one", changed, drop=store.ids[5])
    embed(only)
    assert scores(index) == pytest.approx(right, abs=1e-5)
    assert embed(only, save_dense_model(tmp_path / "other", seed=9)).images == 19
    assert verify_index(index) == []
    with open_writer(index) as writer:
        writer.write([Delete(gone)])
    with pytest.raises(InputError, match=r"has none of the images that are in .*index now"):
        embed(name="new")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"format_version": 9}, "index format 9"),
        ({"indexed_features": "0" * 32}, "of features 000000000000 instead"),
        ({"dimension": 17}, "21 images of 16 numbers instead of 21 of 17"),
        ({"views": 3}, "7 images of 16 numbers instead of 21 of 16"),
        ({"model": "0" * 64}, "the vectors are of 000000000000"),
        ({"colour": "red"}, "fields missing or unknown: colour"),
    ],
)
def test_parts_of_other_models_images_and_formats_are_refused(
    index: Path, embed: Embed, fields: dict[str, object], said: str
) -> None:
    embed()
    change_manifest(index / "dense" / "mine", **fields)
    with pytest.raises(InputError, match=said):
        open_backend(index, "mine")


def test_damaged_parts_are_refused(index: Path, embed: Embed) -> None:
    embed()
    for name in ("vectors.faiss", "model/model.safetensors", "model/tokenizer.json"):
        path = index / "dense" / "mine" / name
        content = path.read_bytes()
        for broken in (content[:-1], content[:-9] + bytes([content[-9] ^ 1]) + content[-8:]):
            path.write_bytes(broken)
            with pytest.raises(InputError, match=f"{path.name} (has .* bytes instead|is damaged)"):
                open_backend(index, "mine")
        path.write_bytes(content)
    (index / "dense" / "mine" / "manifest.json").unlink()
    with pytest.raises(InputError, match=r"no dense part .mine. .it has: none"):
        open_backend(index, "mine")


def test_replaced_images_are_found_by_their_new_vectors(
    index: Path,
    store: FeatureStore,
    changed: FeatureStore,
    embed: Embed,
    write: Write,
    dense_model: Path,
    multi_view: Path,
) -> None:
    embed()
    embed(model=multi_view, name="views", kind="hnsw")
    write(changed)
    assert_embedded(index, dense_model, changed)
    assert_embedded(index, multi_view, changed, "views")
    # What was embedded before is not embedded again, and the former features have their vectors.
    sizes = [path.stat().st_size for path in sorted(index.glob("dense/*/added-*"))]
    for again in (changed, store):
        write(again)
        assert_embedded(index, dense_model, again)
    grown = [path.stat().st_size for path in sorted(index.glob("dense/*/added-*"))]
    assert grown == [2 * size for size in sizes]


def test_models_that_cannot_embed_them_lack_them(
    index: Path,
    changed: FeatureStore,
    embed: Embed,
    write: Write,
    dense_model: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    larger = write_store(tmp_path / "large", source=replace(SOURCE, image_size=64))
    embed(larger, save_dense_model(tmp_path / "64", source=larger.source), "large")
    embed()
    write(changed)
    warned = [record.message for record in caplog.records]
    assert sum("large: " in text and "holds other features" in text for text in warned) == 1
    assert scores(index, "large") == {}
    assert_embedded(index, dense_model, changed)


def test_without_torch_images_are_written_all_the_same(
    index: Path,
    store: FeatureStore,
    embed: Embed,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    embed(name="one")
    image = store[0]
    written = WrittenImages(
        [image], [content_id_of(image)], store.source, store.folder, None, [image.image_id]
    )
    with open_writer(index), monkeypatch.context() as patch:
        follower = DenseFollower(index)
        patch.setitem(sys.modules, "torch", None)
        follower.add(written)
        follower.add(written)
    [warned] = [r.message for r in caplog.records if "images have no vectors of one" in r.message]
    assert "torch is not installed" in warned


def test_names_come_from_the_model_or_the_command(
    dense_model: Path, multi_view: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(dense_model, tmp_path / "lr=0.1")  # a path with an equals sign
    found = name_models([str(dense_model), str(multi_view), f"x={folder}", f"a={dense_model}"])
    right = {"vse++": dense_model, "mv-vse": multi_view, "x": folder, "a": dense_model}
    assert found == {name: str(model) for name, model in right.items()}
    for wrong, said in [
        ([str(dense_model), str(dense_model)], "are both named 'vse\\+\\+': .* NAME=MODEL"),
        ([f"x={dense_model}", f"x={multi_view}"], "are both named 'x'"),
        *(([f"{name}=m"], f"'{name}' cannot be") for name in ("sparta", "milvus", "a.b", "")),
        (["./absent"], r"--model \./absent does not exist: give a model's folder"),
    ]:
        with pytest.raises(InputError, match=said):
            name_models(wrong)
