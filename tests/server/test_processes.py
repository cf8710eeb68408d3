"""Sockets, several processes on one, and the signals that stop them."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from server.processes import _SingleAccept
from server.security.keys import write_keys
from server.security.listening import listen, url
from sparta.errors import InputError
from tests.server.apps import make_key
from tests.server.served import workers_of


def start(kind: str, workers: int = 2) -> "subprocess.Popen[str]":
    code = f"from tests.server.workers import serve; serve({kind!r}, {workers})"
    return subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def address_of(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("workers", [1, 2])
def test_requests_in_flight_are_answered_before_the_end(
    number: signal.Signals, workers: int
) -> None:
    process = start("fakes", workers)
    address = address_of(process)
    for _ in range(5):
        found = httpx.get(f"{address}/v1/search?q=red", timeout=60).json()
        assert [hit["score"] for hit in found["hits"]] == [200, 120, 20]
    with ThreadPoolExecutor(4) as pool, httpx.Client(timeout=60) as client:
        slow = [pool.submit(client.get, f"{address}/v1/search?q=slow") for _ in range(4)]
        time.sleep(1)
        process.send_signal(number)
        assert [one.result().json()["hits"] for one in slow] == [found["hits"]] * 4
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")


def test_backends_that_cannot_be_opened_end_all() -> None:
    process = start("nothing")
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert re.search("^error: photos is not an index$", errors, re.MULTILINE)
    assert "InputError: a worker process could not start" in errors


def serving(process: "subprocess.Popen[str]", folder: Path) -> set[int]:
    """The workers that have opened the backends, as soon as there are two."""
    while True:
        assert process.poll() is None
        found = {one for one in workers_of(process.pid) if (folder / f"{one}.opened").exists()}
        if len(found) == 2:
            return found
        time.sleep(0.05)


def test_a_dead_worker_is_replaced(tmp_path: Path) -> None:
    index = tmp_path / "index"
    index.touch()
    process = start(str(index))
    address = address_of(process)
    for broken in (False, True):
        before = serving(process, tmp_path)
        # They have opened the index; one that answers is ready as well.
        assert httpx.get(f"{address}/livez", timeout=60).status_code == 200
        if broken:  # the first replacement cannot start, a later one can
            index.unlink()
        os.kill(min(before), signal.SIGKILL)
        with suppress(httpx.TransportError):  # of a connection that the killed one had accepted
            httpx.get(f"{address}/livez", timeout=60)
        for _ in range(5):
            assert httpx.get(f"{address}/livez", timeout=60).status_code == 200
        if broken:
            assert process.stderr is not None
            while "exit code 1" not in process.stderr.readline():
                pass
        index.touch()
        assert serving(process, tmp_path) - before
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "Traceback" not in errors


def test_every_worker_knows_a_revoked_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "keys.json"
    monkeypatch.setenv("SPARTA_KEYS", str(file))
    key = make_key(file)
    process = start("fakes")
    address = address_of(process)

    def statuses() -> set[int]:
        """Of requests on connections of their own, which both workers take."""
        headers = {"X-API-Key": key, "Connection": "close"}
        search = f"{address}/v1/search?q=red"
        return {httpx.get(search, headers=headers, timeout=60).status_code for _ in range(12)}

    assert statuses() == {200}
    write_keys(file, [])
    assert statuses() == {401}
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)


def test_workers_end_with_a_first_process_that_was_killed() -> None:
    process = start("fakes")
    address = address_of(process)
    assert httpx.get(f"{address}/livez", timeout=60).status_code == 200
    process.kill()
    # Both workers have its error stream: it ends with the last of them.
    _, errors = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    assert "Traceback" not in errors
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{address}/livez")


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


# ---- sockets -------------------------------------------------------------------------------------


def test_url() -> None:
    assert url("127.0.0.1", 8000) == "http://127.0.0.1:8000"
    assert url("0.0.0.0", 80) == "http://127.0.0.1:80"
    assert url("::1", 8000) == "http://[::1]:8000"


def test_a_taken_port_is_told_from_an_address_that_is_not_ours() -> None:
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=f"port {port} on 127.0.0.1 is in use.*--port"):
            listen("127.0.0.1", port)
    with pytest.raises(InputError, match=r"cannot listen on 203\.0\.113\.1"):
        listen("203.0.113.1", 0)


def test_connections_send_small_answers_at_once() -> None:
    with listen("127.0.0.1", 0) as listening, socket.create_connection(listening.getsockname()):
        connection, _ = listening.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


# ---- signals, which are not lost, whatever a server does when they come --------------------------

# In processes of their own: others have threads that might take the signals.
IGNORED = """
import os, signal
from server.processes import stop_signals

class StoppedWhileItIsRemoved:
    # Python ignores an exception here.
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)

with stop_signals() as stop:
    assert not stop.poll()
    StoppedWhileItIsRemoved()
    assert stop.poll(5)
try:
    os.kill(os.getpid(), signal.SIGINT)
    raise AssertionError
except KeyboardInterrupt:
    print("stopped")
"""

FORKED = """
import os, signal, time
from server.processes import held_back, stop_signals, take

with stop_signals() as stop:
    with held_back():
        pid = os.fork()
        if not pid:
            time.sleep(0.3)
            take()
            time.sleep(60)
            os._exit(1)
    os.kill(pid, signal.SIGTERM)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGTERM
    assert not stop.poll()
print("stopped")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="workers are forks on Linux alone")
@pytest.mark.parametrize("script", [IGNORED, FORKED], ids=["exception is ignored", "just forked"])
def test_a_signal_is_not_lost(script: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stdout) == (0, "stopped\n"), done.stderr
