"""Several processes on one socket."""

import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import httpx
import pytest

from server.backends import Backend, Backends
from server.processes import _SingleAccept, run_workers
from server.sockets import listen, url
from sparta.errors import InputError
from tests.server.fake import FakeSearcher


def open_fakes() -> Backends:
    return Backends([Backend("sparta", FakeSearcher(), quick=True)])


def refuse(index: Path) -> Backends:
    raise InputError(f"{index} is not an index")


def serve(kind: str) -> None:
    """What the tests below run in a process of its own, which signals and workers need."""
    kinds: dict[str, Callable[[], Backends]] = {
        "fakes": open_fakes,
        "nothing": partial(refuse, Path("photos")),
    }
    with listen("127.0.0.1", 0) as listening:
        sys.stdout.write(f"{url('127.0.0.1', listening.getsockname()[1])}\n")
        sys.stdout.flush()
        run_workers(2, kinds[kind], listening)


def start(kind: str) -> "subprocess.Popen[str]":
    code = f"from tests.server.test_processes import serve; serve({kind!r})"
    return subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.mark.parametrize("told", [signal.SIGINT, signal.SIGTERM])
def test_workers_answer_on_one_port_until_told_to_stop(told: signal.Signals) -> None:
    process = start("fakes")
    assert process.stdout is not None
    address = process.stdout.readline().strip()
    for _ in range(5):
        found = httpx.get(f"{address}/v1/search?q=red", timeout=20).json()
        assert [hit["score"] for hit in found["hits"]] == [200, 120, 20]
    process.send_signal(told)
    _, said = process.communicate(timeout=20)
    assert (process.returncode, said) == (0, "")


def test_a_worker_that_ends_by_itself_ends_all() -> None:
    process = start("nothing")
    _, said = process.communicate(timeout=20)
    assert process.returncode == 1
    assert re.search("^error: photos is not an index$", said, re.MULTILINE)
    assert "InputError: a worker process ended unexpectedly" in said


def test_a_burst_of_connections_is_taken_one_in_a_turn() -> None:
    with listen("127.0.0.1", 0) as listening:
        address = listening.getsockname()
        clients = [socket.create_connection(address) for _ in range(2)]
        shared = _SingleAccept(fileno=listening.detach())
        shared.setblocking(False)
    with shared:
        taken = []
        for _ in clients:
            taken.append(shared.accept()[0])
            with pytest.raises(BlockingIOError):
                shared.accept()
        assert {one.getpeername() for one in taken} == {one.getsockname() for one in clients}
        for one in [*taken, *clients]:
            one.close()
