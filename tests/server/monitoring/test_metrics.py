"""Metrics of several processes, some of which die."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from server.monitoring import metrics as module
from server.monitoring.metrics import Metrics, WriterCounts, forget

# Counts so many searches, leaves one running, prints what it sees, and dies.
WORKER = """
import os, signal, sys
from pathlib import Path
from server.monitoring.metrics import Metrics, share

folder, worker, count = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
share(folder, worker)
metrics = Metrics(worker, folder)
for _ in range(count):
    metrics.search("sparta", "columns", 0.3)
metrics.refused.inc(count)
metrics.work(worker + 1, 0)
metrics.index(5, 100, 1.5)
metrics.measure_memory()
sys.stdout.write(metrics.text().decode())
sys.stdout.flush()
os.kill(os.getpid(), signal.SIGKILL)
"""


def run(folder: Path, worker: int, count: int) -> dict[str, float]:
    """What a process of this number prints at its end."""
    command = [sys.executable, "-c", WORKER, str(folder), str(worker), str(count)]
    printed = subprocess.run(command, capture_output=True, text=True, check=False)
    assert printed.returncode == -9, printed.stderr
    return samples(printed.stdout)


def samples(text: str) -> dict[str, float]:
    found = re.findall(r"^visualsparta_(\S+) (\S+)$", text, re.MULTILINE)
    return {name: float(value) for name, value in found}


COUNT = 'search_duration_seconds_count{backend="sparta",engine="columns"}'


def test_counts_survive_their_processes_and_never_fall(tmp_path: Path) -> None:
    first = run(tmp_path, 0, 3)
    assert first[COUNT] == first["searches_refused_total"] == 3
    assert first["searches_running"] == 1
    second = run(tmp_path, 1, 2)
    assert second[COUNT] == second["searches_refused_total"] == 5
    assert second["searches_running"] == 3  # of a process that was killed and nobody missed yet
    assert second['index_images{worker="0"}'] == second['index_images{worker="1"}'] == 5
    assert second['process_resident_memory_bytes{worker="1"}'] > 1e6
    files = set(tmp_path.iterdir())
    forget(tmp_path, 0)
    forget(tmp_path, 1)
    replaced = run(tmp_path, 0, 1)
    assert replaced[COUNT] == replaced["searches_refused_total"] == 6
    assert replaced["searches_running"] == 1
    assert 'index_images{worker="1"}' not in replaced
    assert set(tmp_path.iterdir()) < files


def test_searches_are_timed_by_engine(client: TestClient) -> None:
    client.get("/v1/search?q=red")
    client.get("/v1/search?q=red&backend=vse%2B%2B")
    client.get("/v1/images/garden/one.png/similar")
    found = samples(client.get("/metrics").text)
    name = "search_duration_seconds_count{backend="
    counts = {key: value for key, value in found.items() if key.startswith(name)}
    assert sorted(counts.values()) == [1, 2]
    assert (
        found['search_duration_seconds_bucket{backend="sparta",engine="columns",le="0.0025"}'] == 2
    )


def test_without_proc_memory_is_unknown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module, "_STATM", tmp_path / "none")
    metrics = Metrics()
    metrics.measure_memory()
    assert b"memory_bytes{" not in metrics.text()


def test_what_the_writer_did_since_the_last_look_is_counted() -> None:
    metrics = Metrics()
    for counts in (
        WriterCounts(2, 0.5, 7),
        WriterCounts(2, 0.5, 7),
        WriterCounts(5, 0.75, 9, 1, 3),
    ):
        metrics.writer(counts)
    found = samples(metrics.text().decode())
    names = ("commits", "commit_seconds", "images_written", "images_deleted", "segments_merged")
    assert [found[f"index_{name}_total"] for name in names] == [5, 0.75, 9, 1, 3]
