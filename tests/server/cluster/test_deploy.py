"""The application over shards, with replicas in this process, and what `serve --ray` refuses."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

from indexer.engines.open import read_language
from indexer.engines.shards import ShardsEngine
from indexer.maintenance.copies import restore_snapshot, take_snapshot
from indexer.search.searcher import Searcher
from indexer.store.changes import Add
from indexer.update.writer import open_writer
from server.app import create_app
from server.backends import open_backends
from server.cluster import deploy
from server.cluster.deploy import Ingress, RemoteShards, divided_lines, serve_on
from server.cluster.shard import Served, ShardReplica, ShardWriter, shard_folder
from server.requests import MANY
from sparta import extras
from sparta.errors import InputError
from sparta.tokenizer import TermTokenizer
from tests.indexer.random_postings import random_postings
from tests.indexer.vocabulary import small_tokenizer
from tests.milvus_server import free_port
from tests.needs import package
from tests.server.apps import client_of, make_key, settings
from tests.server.test_sharded import PATHS, folders, without_times


class ReplicaDiedError(Exception):
    """What Ray raises for a replica that has gone."""


class Response:
    """What a handle returns: to be waited for, in an event loop or outside of one."""

    def __init__(self, task: Callable[[], Any]) -> None:
        self._task = task

    def result(self, timeout_s: float) -> Any:
        assert timeout_s > 0
        return asyncio.run(self._task())

    def __await__(self) -> Any:
        return self._task().__await__()

    def cancel(self) -> None:
        """Nothing runs."""


class Handle:
    """Of a deployment in this process; `failures` are raised first, one a call."""

    def __init__(self, replica: Any) -> None:
        self._replica = replica
        self.failures: list[Exception] = []

    def __getattr__(self, name: str) -> Any:
        return SimpleNamespace(remote=lambda *arguments: Response(self._call(name, arguments)))

    def _call(self, name: str, arguments: Any) -> Callable[[], Any]:
        async def call() -> Any:
            if self.failures:
                raise self.failures.pop(0)
            return await getattr(self._replica, name)(*arguments)

        return call


class LocalCluster:
    """All deployments of an index; stands for `ray.serve`."""

    def __init__(self, index: Path) -> None:
        self.served = Served.of(index)
        self.handles: dict[str, Handle] = {}
        for number in range(self.served.shards):
            replica = ShardReplica(self.served, number)
            self.handles[f"shard-{number:03d}"] = Handle(replica)
            writer = ShardWriter(self.served, number, ["photos"])
            self.handles[f"writer-{number:03d}"] = Handle(writer)

    def get_deployment_handle(self, name: str, application: str) -> Handle:
        assert application == self.served.application
        return self.handles[name]

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """Let modules of the server find this in place of Ray."""
        modules: dict[str, Any] = {
            "ray.serve": self,
            "ray.exceptions": SimpleNamespace(RayError=ReplicaDiedError, RayTaskError=KeyError),
            "ray.serve.exceptions": SimpleNamespace(RayServeException=ConnectionError),
        }
        patch.setattr(extras, "import_module", modules.__getitem__)


@pytest.fixture(scope="module")
def indexes(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return folders(tmp_path_factory.mktemp("ingress"), 50)


@pytest.fixture(scope="module")
def cluster(indexes: tuple[Path, Path]) -> Iterator[LocalCluster]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deploy, "SECONDS", 0.3)
        patch.setattr(deploy, "PARTIAL_SECONDS", 0.2)
        patch.setattr(deploy, "PAUSE", 0.01)
        patch.setattr(deploy, "WRITE_SECONDS", 30.0)
        found = LocalCluster(indexes[1])
        found.install(patch)
        yield found


@pytest.fixture(scope="module")
def ingress(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Ingress:
    keys = tmp_path_factory.mktemp("keys") / "keys.yaml"
    made = Ingress.__new__(Ingress)
    chosen = settings(index=Path(cluster.served.folder), keys=keys)
    made.key = make_key(keys, "write")  # type: ignore[attr-defined]
    asyncio.run(made.__init__(chosen, cluster.served))  # type: ignore[misc]
    return made


@pytest.fixture(scope="module")
def client(ingress: Ingress) -> Iterator[TestClient]:
    with client_of(ingress.__serve_build_asgi_app__()) as found:
        found.headers["X-API-Key"] = ingress.key  # type: ignore[attr-defined]
        yield found


def test_answers(client: TestClient, indexes: tuple[Path, Path]) -> None:
    chosen = settings(index=indexes[0])
    with client_of(create_app(open_backends(chosen), chosen)) as whole:
        for path in PATHS:
            right, found = whole.get(path), client.get(path)
            assert found.status_code == right.status_code
            assert without_times(found.json()) == without_times(right.json())


def test_one_image_is_written(client: TestClient) -> None:
    path, body = "/v1/images/x/1.jpg", {"terms": {"zebra": 4.0, "dog": 1.0}}
    made = client.put(path, json=body).json()
    assert made["result"] == "created" and ".1." in made["index_version"]
    assert client.get("/v1/search?q=zebra").json()["hits"][0]["score"] == 8.0
    assert client.get("/v1/suggest?q=zeb").json()["suggestions"][0]["images"] == 1
    assert client.put(path, json=body, headers={"If-None-Match": "*"}).status_code == 412
    changed = client.patch(f"{path}?refresh=none", json={"moons": 2}).json()
    assert (changed["result"], changed["index_version"]) == ("updated", None)
    assert [client.delete(path).status_code for _ in range(2)] == [200, 404]
    assert client.get("/v1/search?q=zebra").json()["unknown"] == ["zebra"]


def test_many_images_are_written(client: TestClient) -> None:
    def post(what: str, **body: Any) -> Any:
        return client.post(f"/v1/images/{what}", **body).json()

    lines = [{"image_id": f"m/{n}", "terms": {"zebra": n + 1}} for n in range(9)]
    body = "\n".join([*map(json.dumps, lines), "", "nonsense", '{"image_id": 5}'])
    found = post("batch", content=body)
    assert (found["created"], [error["line"] for error in found["errors"]]) == (9, [11, 12])
    hits = client.get("/v1/search?q=zebra").json()["hits"]
    assert [hit["image_id"] for hit in hits] == [f"m/{n}" for n in reversed(range(9))]
    gone = post("delete", json={"ids": ["x", "m/0", "y", "m/1", "m/2"]})
    assert (gone["deleted"], gone["missing"]) == (3, ["x", "y"])
    assert post("delete", json={"ids": []})["deleted"] == 0
    assert post("delete", json={"filter": "path:m/*"})["deleted"] == 6
    assert post("batch", content=b"")["created"] == 0


def test_a_replica_that_died_is_asked_again(client: TestClient, cluster: LocalCluster) -> None:
    right = client.get("/v1/search?q=dog").json()["hits"]
    cluster.handles["shard-001"].failures = [ReplicaDiedError(), TimeoutError()]
    assert client.get("/v1/search?q=dog").json()["hits"] == right


def test_a_shard_that_does_not_answer(client: TestClient, cluster: LocalCluster) -> None:
    dead: list[Exception] = [ReplicaDiedError()] * 1000
    handle = cluster.handles["shard-001"]
    handle.failures = dead.copy()
    refused = client.get("/v1/search?q=the&k=100")
    assert refused.status_code == 503
    assert refused.json()["detail"].startswith("shard-001: no machine answers")
    for more in ("", "&filter=stars:1", "&sort=-stars", "&explain=true", "&min_coverage=0.1"):
        handle.failures = dead.copy()
        found = client.get(f"/v1/search?q=the%20qqq&k=100&partial=true{more}").json()
        assert (found["partial"], found["missing_shards"]) == (True, ["shard-001"])
        assert 0 < len(found["hits"]) < 50
    shards = [cluster.handles[f"shard-{number:03d}"] for number in range(3)]
    for one in shards:
        one.failures = dead.copy()
    assert client.get("/v1/search?q=the&partial=true").status_code == 503
    assert client.get("/v1/backends").json()["backends"][0]["images"] == 50
    for one in shards:
        one.failures = []
    found = client.get("/v1/search?q=the&k=100&partial=true").json()
    assert (found["partial"], len(found["hits"])) == (False, 50)


def test_a_fault_of_the_program_is_not_asked_again(
    client: TestClient, cluster: LocalCluster
) -> None:
    cluster.handles["shard-001"].failures = [KeyError("a fault")]
    with pytest.raises(KeyError, match="a fault"):
        client.get("/v1/search?q=the&k=99")


def test_a_writer_that_ended(client: TestClient, cluster: LocalCluster) -> None:
    for handle in cluster.handles.values():
        handle.failures = []
    for number in range(3):
        cluster.handles[f"writer-{number:03d}"].failures = [ReplicaDiedError()]
    refused = client.put("/v1/images/x", json={"terms": {"dog": 1}})
    assert refused.status_code == 503
    assert "whether the change is saved is unknown" in refused.json()["detail"]


def test_another_index(
    ingress: Ingress, client: TestClient, cluster: LocalCluster, tmp_path: Path
) -> None:
    asyncio.run(ingress.reconfigure(asdict(cluster.served)))  # the same
    _, divided = folders(tmp_path, 20)
    other = LocalCluster(divided)
    former = cluster.served
    cluster.served, handles, cluster.handles = other.served, cluster.handles, other.handles
    asyncio.run(ingress.reconfigure(asdict(other.served)))
    assert len(client.get("/v1/search?q=the&k=100").json()["hits"]) == 20
    assert client.delete("/v1/images/a/00003%20%C3%A9.jpg").json()["result"] == "deleted"
    cluster.served, cluster.handles = former, handles
    asyncio.run(ingress.reconfigure(asdict(former)))
    assert len(client.get("/v1/search?q=the&k=100").json()["hits"]) == 50


def test_replicas_need_the_index_that_is_served(indexes: tuple[Path, Path]) -> None:
    served = Served.of(indexes[1])
    gone: dict[str, Any] = {**asdict(served), "folder": "/nowhere"}
    with pytest.raises(InputError, match=r"^/nowhere is not on this machine"):
        ShardReplica(Served(**gone), 0)
    with pytest.raises(InputError, match="is another index than the one that is served"):
        shard_folder(Served(**{**asdict(served), "version": "other"}), 0)


def test_an_index_that_is_restored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, index = folders(tmp_path, 50)
    shard, snapshot = index / "shard-000", tmp_path / "snapshot"
    found = LocalCluster(index)
    found.install(monkeypatch)
    searcher = Searcher(ShardsEngine(RemoteShards(found.served)), read_language(index))
    terms = TermTokenizer.from_folder(whole).ids

    def write(image_id: str, term: str) -> None:
        """In a commit of its own; the first of three shards has the ids x/2, x/3 and x/4."""
        one = np.array([terms[term]], np.int32)
        added = replace(next(iter(random_postings(small_tokenizer(), 1))), image_id=image_id)
        added = replace(added, terms=one, impacts=one, positions=one.astype(np.int16) * 0)
        with open_writer(shard, shard=True) as writer:
            writer.write([Add(added)])

    def found_by(word: str) -> list[str]:
        ids = [hit.image_id for hit in searcher.search(word, 99).hits]
        # Words are counted once for a commit.
        assert [one.images for one in searcher.complete(word)] == ([len(ids)] if ids else [])
        return ids

    write("x/2", "zebra")
    take_snapshot(index, snapshot)
    assert found_by("zebra") == ["x/2"]
    write("x/3", "zebra")
    assert found_by("zebra") == ["x/2", "x/3"]
    restore_snapshot(snapshot, index)
    write("x/4", "dog")  # a commit of the same number
    assert found_by("zebra") == ["x/2"]
    assert "x/4" in found_by("dog")


def test_a_copy_has_an_application_of_its_own(tmp_path: Path) -> None:
    whole, _ = folders(tmp_path, 20)
    take_snapshot(whole, tmp_path / "copy")
    served = [Served.of(one) for one in (whole, tmp_path / "copy")]
    assert served[0].version == served[1].version
    assert served[0].application != served[1].application


# ---- batches: each line is read within limits, and goes to its shard -----------------------------


def test_what_cannot_be_read_is_left_to_the_first() -> None:
    wide = b'{"image_id": "a", "metadata": {"a": [' + b"1," * 400_000 + b"1]}}"
    lines = [b"no JSON", b"[1]", b'{"image_id": 3}', b"[" * 100_000, b"9" * 10**6, wide]
    assert divided_lines(b"\n".join(lines), 3) == {0: b"\n".join(lines)}
    many = b'{"image_id": "a"}' + b"\n" * (MANY + 1)
    assert divided_lines(many, 3) == {0: many}


def test_what_cannot_be_served_on_a_cluster() -> None:
    with pytest.raises(InputError, match=r"^--workers is not for --ray: give --replicas$"):
        serve_on("local", settings(workers=2), 1)
    with pytest.raises(InputError, match=r"^--host 0.0.0.0 lets other machines in"):
        serve_on("local", settings(host="0.0.0.0"), 1)


def test_no_cluster_answers() -> None:
    package("ray", "ray")
    address = f"127.0.0.1:{free_port()}"
    with pytest.raises(InputError, match=rf"^--ray {address}: no cluster answers there"):
        serve_on(address, settings(index=Path("nothing")), 1)
