"""`sparta index-dense`."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from indexer.dense.manifest import DenseManifest, dense_names
from indexer.live.changes import Add, Delete
from indexer.manifest import Manifest
from indexer.update.delete import delete_images
from indexer.update.writer import open_writer
from sparta.command_line import cli
from sparta.errors import InputError
from sparta.features.store import FeatureStore
from tests.indexer.columns.live.images import image
from tests.indexer.tiny import SOURCE
from tests.indexer.tiny_dense import save_dense_model


def test_the_command(
    store: FeatureStore,
    model_dir: Path,
    dense_model: Path,
    multi_view: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = tmp_path / "index"

    def run(command: str, *options: str) -> Any:
        arguments = [command, str(store.folder), "--out", str(out), "--device", "cpu", *options]
        return CliRunner().invoke(cli, arguments)

    refused = run("index-dense", "--model", str(dense_model))
    assert isinstance(refused.exception, InputError)
    assert "build it with `sparta index` first" in str(refused.exception)
    assert run("index-dense").exit_code == 2
    sparse = run("index", "--model", str(model_dir))
    assert sparse.exit_code == 0 and "21 images, " in sparse.output, sparse.output
    dense = run("index-dense", "--model", str(dense_model))
    assert dense.exit_code == 0, dense.output
    assert "vse++: vectors of 21 images, 16 numbers" in dense.output
    assert dense_names(out) == ["vse++"]
    more = run(
        "index-dense", "--model", str(multi_view), "--model", f"second={dense_model}", "--hnsw"
    )
    assert more.exit_code == 0, more.output
    assert "mv-vse: vectors of 21 images in 3 views" in more.output and "hnsw" in more.output
    assert dense_names(out) == ["mv-vse", "second", "vse++"]
    # Features that do not fit are found before the index is changed.
    other = save_dense_model(tmp_path / "other", source=replace(SOURCE, dimension=5))
    before = {name: DenseManifest.open(out, name, Manifest.open(out)) for name in dense_names(out)}
    wrong = run("index-dense", "--model", str(dense_model), "--model", f"other={other}")
    assert "768" in str(wrong.exception)
    after = {name: DenseManifest.open(out, name, Manifest.open(out)) for name in dense_names(out)}
    assert after == before
    # An index that was written to.
    with open_writer(out) as writer:
        writer.write([Delete(store.ids[0]), Add(image("new", {3: 1}))])
    dense = run("index-dense", "--model", str(dense_model))
    assert "vse++: vectors of 20 images, 16 numbers" in dense.output, dense.output
    assert "flat; 1 without" in dense.output.replace("\n", " ")
    monkeypatch.setitem(sys.modules, "faiss", None)
    no_faiss = run("index-dense", "--model", str(dense_model))
    assert "visualsparta[dense]" in str(no_faiss.exception)
    delete_images(out, ["new"])
    assert run("index", "--model", str(model_dir)).exit_code == 0
    assert dense_names(out) == []
