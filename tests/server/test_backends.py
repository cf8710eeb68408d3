"""Dense models served beside the inverted index: on demand, once, and never in its way."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from transformers import PreTrainedModel

import indexer.dense.text_encoder
from indexer.answer import UnavailableError
from indexer.dense.build import add_dense
from indexer.dense.vectors import AddedRows
from indexer.engines.open import open_backend
from indexer.store.changes import Add, Delete
from indexer.update.writer import open_writer
from indexer.verify import verify_index
from server.app import create_app
from server.backends import Backends, open_backends
from sparta.errors import InputError
from sparta.extras import how_to_install
from sparta.vse.model import VseModel
from tests.indexer.tiny_dense import save_dense_model
from tests.server.apps import client_of, settings
from tests.server.drawings import index_drawings, store_drawings
from tests.server.fake import DRAWINGS, postings_of

NAMES = ["sparta", "mv-vse", "vse++"]

LAZY = """
import sys
from pathlib import Path
from server.app import create_app
from server.backends import open_backends
from tests.server.apps import client_of, settings

def ask(path):
    response = client.get(path)
    assert response.status_code == 200, response.text
    return response

served = settings(index=Path(sys.argv[1]))
with client_of(create_app(open_backends(served), served)) as client:
    assert len(ask("/v1/backends").json()["backends"]) == 3
    assert ask("/v1/search?q=red&explain=true").json()["hits"]
    ask("/v1/images/garden/one.png?backend=vse%2B%2B")
    ask("/v1/images/garden/one.png/file?backend=mv-vse")
    loaded = {"torch", "transformers", "faiss"} & set(sys.modules)
    assert not loaded, loaded
    assert ask("/v1/search?q=red&backend=vse%2B%2B").json()["hits"]
    assert "torch" in sys.modules and "faiss" in sys.modules
"""


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory, photos: Path) -> Path:
    folder = tmp_path_factory.mktemp("dense")
    store = store_drawings(folder / "store")
    out = index_drawings(folder / "index", photos, store.fingerprint)
    for name, views in (("vse++", 1), ("mv-vse", 3)):
        model = save_dense_model(folder / name, name, views, seed=views)
        add_dense(out, store, name, model, device="cpu")
    return out


@pytest.fixture
def backends(index: Path) -> Backends:
    return open_backends(settings(index=index, examples=["red"]))


@pytest.fixture
def client(backends: Backends) -> Iterator[TestClient]:
    with client_of(create_app(backends, settings()), raise_server_exceptions=False) as client:
        yield client


def ask(client: TestClient, backend: str, q: str = "a red dog") -> dict[str, Any]:
    response = client.get("/v1/search", params={"q": q, "backend": backend, "explain": "true"})
    assert response.status_code == 200, response.text
    return response.json()


@pytest.mark.parametrize("name", NAMES[1:])
def test_answers_are_those_of_the_searcher(client: TestClient, index: Path, name: str) -> None:
    listed = client.get("/v1/backends").json()["backends"]
    assert [backend["name"] for backend in listed] == NAMES
    assert {(b["images"], b["photos"], *b["examples"]) for b in listed} == {(5, True, "red")}
    searcher = open_backend(index, name)
    for query in ["a red dog", "zyzzyva", "two dogs run on the beach"]:
        found, right = ask(client, name, query), searcher.search(query)
        assert [(h["image_id"], h["score"], h["view"]) for h in found["hits"]] == [
            (hit.image_id, pytest.approx(hit.score), hit.view) for hit in right.hits
        ]
        assert len(found["hits"]) == 5 and found["unknown"] == right.unknown
        assert found["timings"]["encode_ms"] > 0 and found["timings"]["explain_ms"] is None
        for hit in found["hits"]:
            assert hit["explanation"] is None
            assert client.get(hit["url"]).status_code == 200
    searcher.close()


def test_nothing_heavy_is_loaded_until_a_dense_backend_is_asked(index: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", LAZY, str(index)], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr


def test_many_first_queries_open_each_model_once_one_after_the_other(
    backends: Backends, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    load, loading = indexer.dense.text_encoder.load_dense_model, Lock()
    tie_weights = PreTrainedModel.tie_weights

    def counting(folder: Path) -> VseModel:
        opened.append(folder.parent.name)
        assert loading.acquire(blocking=False), "two models are loaded at once"
        time.sleep(0.1)
        try:
            return load(folder)
        finally:
            loading.release()

    monkeypatch.setattr(indexer.dense.text_encoder, "load_dense_model", counting)
    names, query = NAMES[1:] * 8, "a red dog"
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda name: backends.get(name).searcher.search(query), names))
    assert sorted(opened) == ["mv-vse", "vse++"]
    assert PreTrainedModel.tie_weights is tie_weights
    for name, result in zip(names, found, strict=True):
        assert result.hits == backends.get(name).searcher.search(query).hits
    backends.close()


def test_without_faiss_the_inverted_index_still_answers(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "faiss", None)
        for name in NAMES[1:]:
            response = client.get("/v1/search", params={"q": "red", "backend": name})
            assert response.status_code == 503
            problem = response.json()
            assert problem["type"].endswith("backend-unavailable")
            assert problem["field"] == "backend"
            assert how_to_install("dense") in problem["detail"]
        assert ask(client, "sparta", "red")["hits"]
    assert ask(client, "mv-vse")["hits"]  # installed meanwhile


def test_backends_of_a_commit_share_what_is_loaded(index: Path, tmp_path: Path) -> None:
    """Models are loaded once; a damaged part is left out of the counts."""
    live = shutil.copytree(index, tmp_path / "live")
    with open_writer(live) as writer:
        backends = open_backends(settings(index=live))
        assert backends.missing() == {"mv-vse": 0, "vse++": 0}
        former = backends.get("vse++").searcher
        gone, *rest = [hit.image_id for hit in former.search("red").hits]
        writer.write([Delete(gone), Add(postings_of("new", DRAWINGS[gone]))])
        writer.commit()
        newer = backends.refreshed()
        assert newer is not None and newer.refreshed() is None
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(indexer.dense.text_encoder, "load_dense_model", None)
            found = newer.get("vse++").searcher.search("red").hits
        assert [hit.image_id for hit in found] == rest
        assert newer.missing() == {"mv-vse": 1, "vse++": 1}
        assert len(former.search("red").hits) == 5  # the former commit is as it was
        assert newer.get("mv-vse").searcher.search("red").hits
        backends.close()
        newer.close()
    added = AddedRows(live / "dense" / "vse++", 1, 16)
    added.append(["0" * 32, "1" * 32], np.zeros((2, 1, 16), np.float32))
    added.content_id_file.write_bytes(b"?" + added.content_id_file.read_bytes()[1:])
    damaged = open_backends(settings(index=live))
    assert damaged.missing() == {"mv-vse": 1}
    with pytest.raises(
        UnavailableError, match=r"\.content_ids is damaged: add the dense part again"
    ):
        damaged.get("vse++").searcher.search("red")
    damaged.close()
    assert [problem.partition(" is ")[0] for problem in verify_index(live)] == [
        str(added.content_id_file)
    ]
    [path] = (live / "dense" / "vse++").glob("*.arrow")
    path.write_bytes(bytes(path.stat().st_size))
    with pytest.raises(InputError, match=r"vse\+\+/content_ids\.arrow is damaged"):
        open_backends(settings(index=live))
