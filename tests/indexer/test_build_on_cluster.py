"""An index that the workers of a cluster encode is the one that a single process builds."""

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from indexer.build import build_index
from indexer.encoding.encoder import ImageEncoder, encoder_map
from sparta.cluster import Cluster, connected
from sparta.command_line import cli
from sparta.errors import InputError
from sparta.features.store import FeatureStore
from sparta.files import find_work
from tests.indexer.slow_encoding import encode_slowly, wait_for_worker
from tests.indexer.tiny import save_model, without_labels, write_store
from tests.indexer.vocabulary import TOKENIZER
from tests.ray_cluster import NODE, kill_node
from tests.s3_server import upload
from tests.torture.tiny_index import answers

KILLED = """
import os, signal
from indexer.workspace import Workspace
from sparta.__main__ import main

save = Workspace.save_shard

def save_and_die(work, key, number, shard):
    save(work, key, number, shard)
    if number == 1:
        os.kill(os.getpid(), signal.SIGKILL)

Workspace.save_shard = save_and_die
main()
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that workers run without torch, whose import takes seconds."""
    return without_labels(save_model(tmp_path_factory.mktemp("model"), TOKENIZER))


@pytest.fixture
def units(monkeypatch: pytest.MonkeyPatch) -> list[list[Any]]:
    """The units of work that workers are given, by calls."""
    found: list[list[Any]] = []
    run = Cluster.map

    def recorded(cluster: Cluster, open_tool: Any, work: Any, units: Any) -> Any:
        found.append(list(units))
        return run(cluster, open_tool, work, units)

    monkeypatch.setattr(Cluster, "map", recorded)
    return found


def unfinished(out: Path) -> dict[str, bytes]:
    """What a build has saved, by the names of its files, but for Lucene's."""
    [work] = find_work(out)
    names = [path for path in work.iterdir() if path.suffix in (".npz", ".json")]
    return {path.name: path.read_bytes() for path in names if path.name.startswith(("sh", "off"))}


def parts(index: Path) -> dict[str, bytes]:
    """All files of an index but Lucene's, and the manifests, which name those."""
    files = [path for path in index.rglob("*") if path.is_file() and path.name != "manifest.json"]
    return {path.name: path.read_bytes() for path in files if path.parent.name != "lucene"}


def kill_both(nodes: Any, node: Any, notes: Path) -> None:
    """Kill a worker, and a node with another, once they encode."""
    [raylet] = node.all_processes["raylet"]
    doomed = raylet.process.pid
    wait_for_worker(notes, doomed)
    os.kill(wait_for_worker(notes, doomed, other=True), signal.SIGKILL)
    kill_node(nodes, node)


def test_after_kill_9_of_a_worker_and_a_node_shards_are_equal_to_the_byte(
    ray_nodes: Any, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indexer.build.OFFSET_SAMPLE", 13)
    monkeypatch.setattr("indexer.encoding.encoder.WINDOW", 2)  # the sample in three pieces
    monkeypatch.setattr("indexer.workspace.put", lambda *_: 1 / 0)
    notes = tmp_path / "notes"
    notes.mkdir()
    stores = [
        write_store(tmp_path / augmentation, seed=seed, augmentation=augmentation, shards=10)
        for seed, augmentation in enumerate(("plain", "flip"))
    ]
    build = partial(build_index, stores, [model], batch_size=3, device="cpu")
    with pytest.raises(ZeroDivisionError):
        build(tmp_path / "one")
    node = ray_nodes.add_node(**NODE)
    monkeypatch.setattr("indexer.workspace.encode_rows", partial(encode_slowly, notes))
    with connected(ray_nodes.address) as cluster, ThreadPoolExecutor() as thread:
        killed = thread.submit(kill_both, ray_nodes, node, notes)
        with pytest.raises(ZeroDivisionError):
            build(tmp_path / "many", cluster=cluster)
        killed.result()
    right, found = unfinished(tmp_path / "one"), unfinished(tmp_path / "many")
    assert len(right) == 21  # ten shards of two files, and the offsets
    assert found == right


def test_after_kill_9_of_the_command_the_rest_is_encoded(
    ray_nodes: Any, store: FeatureStore, model: Path, tmp_path: Path, units: list[list[Any]]
) -> None:
    whole, out = tmp_path / "whole", tmp_path / "index"
    build_index([store], [model], whole, device="cpu")
    command = ["index", upload(store.folder, "features"), "--model", str(model), "--out", str(out)]
    command += ["--device", "cpu", "--ray", ray_nodes.address]
    run = subprocess.run([sys.executable, "-c", KILLED, *command], check=False)
    assert run.returncode == -signal.SIGKILL and not out.exists()
    assert {"shard-stores-00000.npz", "shard-stores-00001.npz", "offsets.npz"} <= unfinished(
        out
    ).keys()
    again = CliRunner().invoke(cli, command)
    assert again.exit_code == 0, again.output
    assert units == [[range(15, 21)]]  # the last shard alone
    assert answers(out) == answers(whole)
    assert parts(out) == parts(whole)


def test_a_model_that_is_another_elsewhere_is_refused(store: FeatureStore, tmp_path: Path) -> None:
    model = save_model(tmp_path / "model", TOKENIZER)
    encoder = ImageEncoder.open([store], [model], device="cpu")
    worker: Any = SimpleNamespace(map=lambda open_tool, *_: open_tool())
    encode = encoder_map(encoder, [model], "cpu", worker)
    save_model(tmp_path / "model", TOKENIZER, seed=1)
    with pytest.raises(InputError, match=f"{model} is another than on the machine that asked"):
        encode(ImageEncoder.score, [])
