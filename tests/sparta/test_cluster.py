"""Work on a real Ray cluster of several nodes, whose processes are killed."""

import pickle
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sparta.cluster import Cluster, Worker, WorkerPlan, connected, plan_workers
from sparta.errors import InputError
from tests import ray_cluster as ray


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


def test_what_a_worker_does(tmp_path: Path) -> None:
    opened: list[int] = []

    def open_tool() -> int:
        opened.append(1)
        if len(opened) == 1:
            raise InputError("model/ does not exist")
        return 10

    worker: Worker[int, int, int] = Worker(open_tool, lambda a, b: a * b, tmp_path / "absent")
    batch = {"unit": [pickle.dumps(3)]}
    [refused] = [pickle.loads(one) for one in worker(batch)["result"]]
    assert isinstance(refused, InputError) and "model/ does not exist" in str(refused)
    assert [pickle.loads(one) for _ in range(2) for one in worker(batch)["result"]] == [30, 30]
    assert len(opened) == 2


@pytest.mark.parametrize("address", ["here", "ray://head:10001", "head:", ":6379"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(InputError, match=f"--ray {address}: give local, auto, or HOST:PORT"):
        connected(address).__enter__()


def test_an_address_where_nothing_listens_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(InputError, match=r"no cluster answers there \(.*\): start one with ray"):
        connected(f"127.0.0.1:{port}").__enter__()


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r"pip install 'visualsparta\[ray\]'"):
        connected("auto").__enter__()


def test_no_address_is_no_cluster() -> None:
    with connected(None) as found:
        assert found is None
