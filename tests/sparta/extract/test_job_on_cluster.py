"""Work on a real Ray cluster of several nodes, whose features are those of a single process."""

import json
import pickle
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sparta.cluster import Cluster, Worker, WorkerPlan, connected, plan_workers
from sparta.command_line import cli
from sparta.errors import InputError
from sparta.extract import job
from sparta.extract.extractor import load_extractor
from sparta.extract.job import PhotoWorker, extract_on, extract_photos
from sparta.extract.photos import Augmentation
from tests import ray_cluster as ray
from tests.bad_paths import add_bad_paths
from tests.s3_server import upload
from tests.sparta.extract.test_job import contents, run_killed
from tests.sparta.extract.tiny_networks import noisy
from tests.test_documented_commands import CLUSTER, run_page

OPTIONS: dict[str, Any] = {"image_size": 32, "batch_size": 3, "workers": 1}


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Ten photos, one of them broken."""
    folder = noisy(tmp_path / "photos", *(f"{i:02d}.png" for i in range(10)))
    (folder / "05.png").write_text("broken")
    return folder


class Here(Cluster):
    """A cluster of this process."""

    def __init__(self) -> None:
        pass

    def map(self, open_tool: Any, work: Any, units: Any) -> Any:
        tool = open_tool()
        yield from (work(tool, unit) for unit in units)


HERE = Here()


def test_after_kill_9_of_the_driver_the_rest_is_extracted(
    ray_nodes: Any, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job, "SHARD_SIZE", 4)
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    extract_photos(photos, whole, "pixels", **OPTIONS)
    run_killed(photos, killed, after=4, shard=4, workers=1, ray=ray_nodes.address)
    monkeypatch.chdir(tmp_path)  # of the workers too
    with connected(ray_nodes.address) as cluster:
        report = extract_photos(
            Path("photos"), Path("killed"), "pixels", cluster=cluster, **OPTIONS
        )
    assert (report.images, report.skipped, report.reused) == (9, 1, 4)
    found, right = contents(killed), contents(whole)
    assert found.keys() == right.keys()
    assert {name for name in found if found[name] != right[name]} <= {"store.json"}  # its paths


def test_the_command_reads_photos_of_a_bucket(ray_nodes: Any, photos: Path, tmp_path: Path) -> None:
    address = upload(photos, "photos")
    for name, places in (("one", [str(photos)]), ("many", [address, "--ray", ray_nodes.address])):
        arguments = ["--backbone", "pixels", "--image-size", "32", "--out", str(tmp_path / name)]
        run = CliRunner().invoke(cli, ["extract", *places, *arguments])
        assert run.exit_code == 0, run.output
        assert "1 photos could not be used" in run.output
    one, many = contents(tmp_path / "one"), contents(tmp_path / "many")
    header = json.loads(many["store.json"])
    assert header["photos"] == address
    assert header["inputs"] == json.loads(one["store.json"])["inputs"]
    equal = [*(shard["file"] for shard in header["shards"]), "skipped.jsonl"]
    assert [many[name] for name in equal] == [one[name] for name in equal]


def test_the_lines_of_the_page_run_in_order(ray_nodes: Any, tmp_path: Path) -> None:
    run_page(CLUSTER, tmp_path, dict.fromkeys(["10.0.0.1:6379", "auto"], ray_nodes.address))


@pytest.mark.parametrize(
    ("photo", "side", "message"),
    [
        ("x.png", 32, r"photos has none of the photos: give a folder"),
        ("00.png", 64, r"the features would be others .*: image_size: 3"),
    ],
)
def test_a_machine_with_other_photos_or_features_is_named(
    photos: Path, photo: str, side: int, message: str
) -> None:
    worker = PhotoWorker(load_extractor("pixels", None, 32), photos, Augmentation("plain"), 0)
    found = extract_on(HERE, worker, lambda: load_extractor("pixels", None, side), [[[photo]]])
    with pytest.raises(InputError, match=message):
        list(found)


def test_unreadable_paths(photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "SHARD_SIZE", 1)
    reasons = add_bad_paths(photos)
    report = extract_photos(photos, tmp_path / "out", "pixels", cluster=HERE, **OPTIONS)
    assert (report.images, report.skipped) == (9, 1 + len(reasons))


# ---- any work, on nodes whose processes are killed -----------------------------------------------


@pytest.mark.parametrize(
    ("nodes", "device", "plan"),
    [
        ([{"CPU": 4.0}, {"CPU": 8.0}], "auto", WorkerPlan(2, 4, 0)),
        ([{}, {"CPU": 8.0}], "auto", WorkerPlan(1, 8, 0)),  # a head without work
        ([{"CPU": 4.0}, {"CPU": 16.0, "GPU": 4.0}], "auto", WorkerPlan(4, 4, 1)),
        ([{"CPU": 2.0, "GPU": 4.0}], "cuda", WorkerPlan(4, 1, 1)),
        ([{"CPU": 16.0, "GPU": 4.0}], "cpu", WorkerPlan(1, 16, 0)),
        ([{}], "auto", WorkerPlan(1, 1, 0)),
    ],
)
def test_planned_workers(nodes: list[dict[str, float]], device: str, plan: WorkerPlan) -> None:
    assert plan_workers(nodes, device) == plan


JAVA_BESIDE_RAY = """
from indexer.lucene.jvm import java
from sparta.cluster import FAULTS, connected
import ctypes, sys

def handlers():
    found = (ctypes.c_void_p * 32)()
    return [ctypes.CDLL(None).sigaction(number, None, found) or found[0] for number in FAULTS]

system = java("java.lang.System")
before = handlers()
with connected(sys.argv[1]):
    assert handlers() == before
    system.gc()
assert handlers() == before and None not in before
system.gc()
"""


def test_java_survives_beside_ray(ray_nodes: Any) -> None:
    command = [sys.executable, "-c", JAVA_BESIDE_RAY, ray_nodes.address]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_results_are_in_order_of_the_units(cluster: Cluster) -> None:
    assert cluster.workers == ray.NODES
    assert list(cluster.map(ray.open_nothing, ray.square, range(20))) == [i * i for i in range(20)]
    assert list(cluster.map(ray.open_nothing, ray.square, [])) == []


def test_an_input_error_names_the_machine(cluster: Cluster) -> None:
    with pytest.raises(InputError, match=r"^on \S+: features/shard-00002\.arrow is damaged$"):
        list(cluster.map(ray.open_nothing, ray.square_or_refuse, range(4)))


def test_other_errors_have_the_workers_traceback(cluster: Cluster) -> None:
    with pytest.raises(Exception, match="in square_or_fail"):
        list(cluster.map(ray.open_nothing, ray.square_or_fail, [1, 0]))


def test_a_tool_that_cannot_be_opened_is_tried_again(tmp_path: Path) -> None:
    tools: Iterator[Any] = iter([InputError("model/ does not exist"), 10])

    def open_tool() -> int:
        tool = next(tools)
        if isinstance(tool, InputError):
            raise tool
        return int(tool)

    worker: Worker[int, int, int] = Worker(open_tool, lambda a, b: a * b, tmp_path / "absent")
    batch = {"unit": [pickle.dumps(3)]}
    [refused], *results = [[pickle.loads(r) for r in worker(batch)["result"]] for _ in range(3)]
    assert isinstance(refused, InputError) and "model/ does not exist" in str(refused)
    assert results == [[30], [30]]


@pytest.mark.parametrize("address", ["here", "ray://head:10001", "head:", ":6379", "SILENT", ""])
def test_a_cluster_that_is_not_reached_is_named(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = f"--ray {address}: give local, auto, or HOST:PORT"
    if not address:
        monkeypatch.setitem(sys.modules, "ray", None)
        address, message = "auto", r"pip install '.*\[ray\]'"
    if address == "SILENT":
        with socket.create_server(("127.0.0.1", 0)) as server:
            address = f"127.0.0.1:{server.getsockname()[1]}"
        message = r"no cluster answers there \(.*\): start one with ray"
    with pytest.raises(InputError, match=message):
        connected(address).__enter__()
