"""Several processes on one socket."""

import re
import signal
import socket
import subprocess
import sys

import httpx
import pytest

from server.processes import _SingleAccept
from server.sockets import listen


def start(kind: str) -> "subprocess.Popen[str]":
    code = f"from tests.server.workers import serve; serve({kind!r})"
    return subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_workers_answer_on_one_port_until_interrupted(number: signal.Signals) -> None:
    process = start("fakes")
    assert process.stdout is not None
    address = process.stdout.readline().strip()
    for _ in range(5):
        found = httpx.get(f"{address}/v1/search?q=red", timeout=20).json()
        assert [hit["score"] for hit in found["hits"]] == [200, 120, 20]
    process.send_signal(number)
    _, errors = process.communicate(timeout=20)
    assert (process.returncode, errors) == (0, "")


def test_a_worker_that_ends_by_itself_ends_all() -> None:
    process = start("nothing")
    _, errors = process.communicate(timeout=20)
    assert process.returncode == 1
    assert re.search("^error: photos is not an index$", errors, re.MULTILINE)
    assert "InputError: a worker process ended unexpectedly" in errors


def test_a_burst_of_connections_is_accepted_one_by_one() -> None:
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
