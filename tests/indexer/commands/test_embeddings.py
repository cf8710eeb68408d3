"""Stored image embeddings of a dual encoder become an index, without the photos."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from numpy.typing import NDArray
from pyarrow import parquet

from sparta.errors import InputError
from sparta.features.record import FeatureSource
from sparta.model_id import model_folder
from sparta.readers.embeddings import read_embeddings
from sparta.tokenizer import TermTokenizer
from sparta.visualsparta.config import ImageHeadConfig
from sparta.visualsparta.init import from_config
from sparta.visualsparta.model import load_visualsparta
from tests.indexer.command_line import run
from tests.indexer.tiny import save_model

WORDS, SIZE = ["dog", "cat", "beach", "ball"], 8
JOINT = FeatureSource("patch", "clip", "abc", SIZE, 224, extra={"space": "joint", "cells": 2})
VECTORS = np.random.default_rng(0).normal(size=(6, SIZE)).astype(np.float32)
IDS = [f"{name}.jpg" for name in "fedcba"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose head passes on embeddings, with random vectors for a few words."""
    tokenizer = TermTokenizer.from_folder(model_folder("photos", weights=False))
    head = ImageHeadConfig(len(tokenizer.vocabulary), SIZE + 1, 0)
    made = from_config(head, tokenizer, JOINT, use_labels=False, use_locations=False, offset="none")
    torch.manual_seed(0)
    torch.nn.init.normal_(made.query_embedding.weight)
    made.trained_terms.copy_(torch.tensor([word in WORDS for word in tokenizer.vocabulary]))
    folder = tmp_path_factory.mktemp("joint")
    made.save_pretrained(folder)
    return folder


def write(folder: Path, kind: str) -> Path:
    """The embeddings in a form; rows are not in the order of the ids."""
    path = folder / f"in.{kind.partition(' ')[0]}"
    fields: dict[str, Any] = {"path": IDS, "caption": [f"seen {name}" for name in IDS]}
    if kind == "clip-retrieval":
        for part, rows in enumerate((slice(0, 4), slice(4, 6))):
            for name in ("img_emb", "metadata"):
                (folder / name).mkdir(exist_ok=True)
            np.save(folder / f"img_emb/img_emb_{part}.npy", VECTORS[rows].astype(np.float16))
            own = {"image_path": [f"/{name}" for name in IDS[rows]], "width": [9] * len(IDS[rows])}
            own |= {"caption": fields["caption"][rows], "url": ["http://x/" + i for i in IDS[rows]]}
            parquet.write_table(pa.table(own), folder / f"metadata/metadata_{part}.parquet")
        return folder
    if kind.startswith("parquet"):
        values = pa.array(VECTORS.ravel().astype(np.float16 if "fixed" in kind else np.float32))
        ends = pa.array(range(0, VECTORS.size + 1, SIZE), pa.int32())
        lists = pa.ListArray.from_arrays(ends, values)
        if "fixed" in kind:
            lists = pa.FixedSizeListArray.from_arrays(values, SIZE)
        parquet.write_table(pa.table(fields | {"embedding": lists}), path)
    elif kind == "npz":
        np.savez(path, image_features=VECTORS, text_features=VECTORS, ids=np.array(IDS))
    else:
        np.save(path, np.asfortranarray(VECTORS) if "json" in kind else VECTORS.astype(np.float16))
        objects = [{"id": 0, "image": name} for name in IDS]
        text = json.dumps(objects) if "json" in kind else "\n".join(IDS)
        path.with_suffix(".json" if "json" in kind else ".txt").write_text(text)
    return path


def unit(vectors: NDArray[np.floating]) -> NDArray[np.float64]:
    found = vectors.astype(np.float64)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


FORMS = ["clip-retrieval", "npy", "npy json", "npz", "parquet", "parquet fixed"]


@pytest.mark.parametrize("kind", FORMS)
def test_every_form_is_read(tmp_path: Path, kind: str) -> None:
    ids, vectors = read_embeddings(write(tmp_path, kind))
    assert ids == IDS
    assert vectors.dtype == np.float16
    np.testing.assert_allclose(vectors, unit(VECTORS), atol=1e-3)


@pytest.mark.parametrize(
    ("kind", "way"),
    [("clip-retrieval", "at once"), ("parquet", "imported"), ("parquet fixed", "added")],
)
def test_answers_equal_the_definition(tmp_path: Path, model: Path, kind: str, way: str) -> None:
    (tmp_path / "in").mkdir()
    source, out = write(tmp_path / "in", kind), tmp_path / "index"
    options = ["--model", str(model), "--out", str(out), "--bits", "16"]
    if way == "imported":
        run("import", "embeddings", source, "--out", tmp_path / "features")
        run("index", tmp_path / "features", *options)
    else:
        run("index", source, *options)
    if way == "added":
        run("delete", out, *IDS[:3], "--yes")
        assert "3 images added, 3 replaced; 6 in all" in run("add", out, source)
    loaded = load_visualsparta(model)
    assert loaded.tokenizer is not None
    vectors = loaded.query_embedding.weight.detach().double().numpy()
    for query in ("dog", "a cat on the beach", "ball dog"):
        known = [vectors[loaded.tokenizer.ids[word]] for word in query.split() if word in WORDS]
        wholes = np.hstack([unit(VECTORS), np.ones((len(IDS), 1))])
        scores = sum(np.log1p(np.maximum(0, wholes @ one)) for one in known)
        hits = json.loads(run("search", out, query, "-k", "9", "--json", "--explain"))["hits"]
        order = sorted(np.flatnonzero(scores), key=lambda row: -scores[row])
        assert [hit["image_id"] for hit in hits] == [IDS[row] for row in order]
        ratios = [hit["score"] / scores[IDS.index(hit["image_id"])] for hit in hits]
        np.testing.assert_allclose(ratios, ratios[0], rtol=5e-3)
        assert hits[0]["metadata"]["caption"] == f"seen {hits[0]['image_id']}"
        assert hits[0]["metadata"]["width"] == 0
        won = [term["box"] for term in hits[0]["explanation"] if term["impact"]]
        assert won == [[0, 0, 1, 1]] * len(won)  # there are no regions


def test_models_of_other_features_are_refused(tmp_path: Path, model: Path) -> None:
    tokenizer = TermTokenizer.from_folder(model)
    other = save_model(tmp_path / "other", tokenizer)
    wide = save_model(tmp_path / "wide", tokenizer, source=replace(JOINT, dimension=16))
    path = write(tmp_path, "npy")
    for name in (other, wide):
        with pytest.raises(
            InputError, match=r"in.npy holds embeddings of 8 numbers, which --model"
        ):
            run("index", path, "--model", name, "--out", tmp_path / "index")
    assert not [*tmp_path.glob(".*")]  # nothing is left


@pytest.mark.parametrize(
    ("vectors", "ids", "said"),
    [
        ([[1, 2], [np.nan, 1]], "ab", r"in.npy, row 2: all its numbers are 0, or one is NaN"),
        ([[1, 2], [0, 0]], "ab", r"in.npy, row 2: all its numbers are 0"),
        ([[1, 2]], "ab", r"in.txt: 2 ids for the 1 rows of .*in.npy"),
        ([[1, 2], [1, 3]], "aa", r"in.txt, row 2: image 'a' was there before"),
        ([[1, 2], [1, 3]], "a ", r"in.txt, row 2: no id"),
        ([1, 2], "ab", r"in.npy: expected float with 2 axes"),
        (np.array([[1, None]], object), "a", r"in.npy holds Python objects"),
        (np.empty((0, 2)), "", "no embedding in .*in.npy"),
    ],
)
def test_what_cannot_be_used_is_named(tmp_path: Path, vectors: Any, ids: str, said: str) -> None:
    found = vectors if isinstance(vectors, np.ndarray) else np.array(vectors, np.float32)
    np.save(tmp_path / "in.npy", found, allow_pickle=True)
    (tmp_path / "in.txt").write_text("\n".join([*ids, ""]))
    with pytest.raises(InputError, match=said):
        read_embeddings(tmp_path / "in.npy")


def test_columns_and_files_that_are_not_clear_are_named(tmp_path: Path) -> None:
    path, lists = tmp_path / "in.parquet", [[1.0, 2.0], [1.0]]
    for table, said in (
        ({"id": ["a", "b"], "v": lists}, "in.parquet, row 2: expected 2 numbers"),
        ({"id": ["a", "b"], "v": [None, [1.0]]}, "in.parquet, row 1: expected 1 numbers"),
        ({"name": ["a"], "v": lists[:1]}, "in.parquet, row 1: no id; columns of ids are image, "),
        ({"id": ["a"], "v": lists[:1], "w": lists[:1]}, "expected one column of lists of floats"),
    ):
        parquet.write_table(pa.table(table), path)
        with pytest.raises(InputError, match=said):
            read_embeddings(path)
    path.write_bytes(b"PAR1")
    with pytest.raises(InputError, match=r"in\.parquet is not Parquet"):
        read_embeddings(path)
    np.save(tmp_path / "a.npy", VECTORS)
    with pytest.raises(InputError, match=r"found ids in none: write one file, a\.txt"):
        read_embeddings(tmp_path / "a.npy")
