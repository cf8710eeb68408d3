"""`sparta bench scale` with tiny blocks."""

from __future__ import annotations

import json
import os
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from eval.bench.scaling import measure
from eval.bench.scaling.measure import Block, _spread
from eval.bench.scaling.nodes import free_cores, on_cores, started_nodes
from sparta.command_line import cli
from sparta.errors import InputError
from sparta.features.store import FeatureStore
from sparta.tokenizer import WordPieceTokenizer
from tests.indexer.tiny import save_model, without_labels


def test_the_command_measures(
    ray_nodes: Any,
    views: list[FeatureStore],
    tokenizer: WordPieceTokenizer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(measure, "started_nodes", lambda _: nullcontext(ray_nodes.address))
    model = without_labels(save_model(tmp_path / "model", tokenizer))
    out = tmp_path / "scale.json"
    arguments = ["bench", "scale", str(views[0].folder), "--model", str(model)]
    arguments += ["--workers", "1", "--blocks", "4", "--out", str(out)]
    run = CliRunner().invoke(cli, arguments)
    assert run.exit_code == 0, run.output
    assert "4 blocks of" in run.output and "none, no Ray" in run.output
    alone, spread = json.loads(out.read_text())["spread"]
    assert (alone["workers"], spread["workers"]) == (0, 1)
    assert alone["block_ms"] == 0 < spread["block_ms"]
    for one in (alone, spread):
        assert min(one["images_per_second"], one["work_ms"], one["start_seconds"]) > 0


def test_too_few_blocks_or_cores_are_refused(views: list[FeatureStore], models: list[Path]) -> None:
    arguments = ["bench", "scale", str(views[0].folder), "--model", str(models[0])]
    run = CliRunner().invoke(cli, [*arguments, "--workers", "2", "--blocks", "3"])
    assert isinstance(run.exception, InputError) and "--blocks 3" in str(run.exception)
    with pytest.raises(InputError, match="--workers 100000: this process may use"):
        free_cores(100_000)


def test_rates_are_of_all_workers() -> None:
    blocks = [Block(b"", 0.5, 3.0, 4.0), Block(b"", 0.7, 2.0, 5.0), Block(b"", 0.6, 4.0, 4.5)]
    found = _spread(2, blocks, 30, 1.0, 7.0)
    assert found.images_per_second == 10
    assert found.work_ms == pytest.approx(600)
    assert (found.block_ms, found.start_seconds) == (7.0, 1.0)


def test_other_systems_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity")
    with pytest.raises(InputError, match="needs Linux"):
        free_cores(1)


def test_a_process_is_restricted_for_a_while() -> None:
    before = os.sched_getaffinity(0)
    [core] = free_cores(1)
    with on_cores([core]):
        assert os.sched_getaffinity(0) == {core}
    assert os.sched_getaffinity(0) == before


class Nodes:
    """In place of Ray's cluster: notes the cores on which nodes are started."""

    address = "127.0.0.1:6379"

    def __init__(self) -> None:
        self.cores: list[set[int]] = []

    def add_node(self, **_: Any) -> None:
        self.cores.append(os.sched_getaffinity(0))

    def shutdown(self) -> None:
        self.cores.append(set())


def test_a_node_has_its_core(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes, before, core = Nodes(), os.sched_getaffinity(0), free_cores(1)
    monkeypatch.setattr("ray.cluster_utils.Cluster", lambda: nodes)
    with started_nodes(core) as address:
        assert address == nodes.address
        assert os.sched_getaffinity(0) == before
    assert nodes.cores == [set(core), set()]
