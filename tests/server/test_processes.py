"""Several processes on one socket, the index they inherit, and the signals that stop them."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from indexer.maintenance.copies import set_alias, take_snapshot
from server.app import create_app
from server.backends import open_backends
from server.connections import Listening, State
from server.processes import Inherited, can_be_inherited
from server.security.keys import write_keys
from server.security.listening import listen
from sparta.errors import InputError
from tests.needs import EVERY, crossed, linux
from tests.server.apps import client_of, make_key, settings
from tests.server.drawings import index_drawings
from tests.server.served import served, workers_of


def start(kind: str, workers: int = 2) -> subprocess.Popen[str]:
    code = f"from tests.server.served import serve; serve({kind!r}, {workers})"
    return subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def address_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.mark.parametrize(("number", "workers"), crossed([signal.SIGINT, signal.SIGTERM], [1, 2]))
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
        time.sleep(0.4)
        with pytest.raises(httpx.ConnectError):  # nobody waits for a server that is gone
            httpx.get(f"{address}/livez")
        assert [one.result().json()["hits"] for one in slow] == [found["hits"]] * 4
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")


@pytest.mark.parametrize("workers", [1, 2])
def test_what_takes_too_long_is_answered_all_the_same(workers: int) -> None:
    process = start("hurried", workers)
    address = address_of(process)
    assert httpx.get(f"{address}/livez", timeout=60).is_success
    with ThreadPoolExecutor(4) as pool, httpx.Client(timeout=60) as client:
        slow = [pool.submit(client.get, f"{address}/v1/search?q=slow") for _ in range(2)]
        post = partial(client.post, f"{address}/v1/search", json={"q": "slow"})
        slow += [pool.submit(post) for _ in range(2)]
        time.sleep(0.5)
        process.send_signal(signal.SIGTERM)
        for answer in [one.result() for one in slow]:
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
            assert "the server stops" in answer.json()["detail"]
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")


def raw(address: str, request: str, source: socket.socket | None = None) -> str:
    """The head of the answer to a request, on a connection of its own or one that is kept."""
    url = urlsplit(address)
    connection = source or socket.create_connection((str(url.hostname), url.port or 80), 20)
    connection.sendall(request.replace("\n", "\r\n").encode())
    return connection.recv(65_536).decode("latin-1").partition("\r\n\r\n")[0].lower()


HOST = "Host: localhost\n"
ASKED = [
    f"GET /livez HTTP/1.1\n{HOST}\n",
    f"GET /readyz HTTP/1.1\n{HOST}\n",
    f"GET /v1/search?q=red HTTP/1.1\n{HOST}\n",
    f"GET /v1/search?q=red HTTP/1.1\n{HOST}Connection: keep-alive\n\n",
    f"HEAD /v1/search?q=red HTTP/1.1\n{HOST}\n",
    f"GET /v1/search?q=red HTTP/1.0\n{HOST}Connection: keep-alive\n\n",
    f"GET /v1/search?k=0 HTTP/1.1\n{HOST}\n",
    f"POST /v1/search HTTP/1.1\n{HOST}Content-Type: application/json\n"
    'Content-Length: 11\n\n{"q": "red"}',
    f"POST /v1/search HTTP/1.1\n{HOST}Content-Length: 999999\n\n",
    f"GET /page/app.js HTTP/1.1\n{HOST}\n",
    f"GET /nowhere HTTP/1.1\n{HOST}\n",
    f"DELETE /v1/images/x HTTP/1.1\n{HOST}\n",
    "GET /v1/search?q=red HTTP/1.1\nHost: evil.example\n\n",
    "GET / HTTP/9.9\n\n",
]


@pytest.mark.parametrize("workers", [1, 2])
def test_every_answer_of_a_server_that_drains_says_that_it_closes(workers: int) -> None:
    process = start("draining", workers)
    address = address_of(process)
    url = urlsplit(address)
    kept = [socket.create_connection((str(url.hostname), url.port), 20) for _ in range(4)]
    for one in kept:
        assert "connection: close" not in raw(address, ASKED[0], one)
    kept[1].sendall(b"GET /livez HT")
    slow = httpx.Client(timeout=60)
    with ThreadPoolExecutor(1) as pool:
        begun = pool.submit(slow.get, f"{address}/v1/search?q=slow")
        time.sleep(0.5)
        process.send_signal(signal.SIGTERM)
        while " 503 " not in raw(address, ASKED[1]):
            time.sleep(0.02)
        time.sleep(0.3)  # the other worker
        for request in ASKED:
            assert "connection: close" in raw(address, request), request
        assert "connection: close" in raw(address, ASKED[0], kept[0])
        assert begun.result().headers["connection"] == "close"
        # After that what has begun to arrive is answered; an idle connection ends, unbroken.
        assert kept[2].recv(10) == b""
        kept[2].sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert kept[2].recv(10) == b""
        assert "connection: close" in raw(address, f"TP/1.1\n{HOST}\n", kept[1])
    # The other worker may take a little longer; what the kernel accepted while it closed is reset.
    with pytest.raises((ConnectionRefusedError, ConnectionResetError)):
        while process.poll() is None:
            assert "connection: close" in raw(address, ASKED[0])
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")


def test_backends_that_cannot_be_opened_end_all() -> None:
    process = start("nothing")
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert re.search("^error: photos is not an index$", errors, re.MULTILINE)
    assert "InputError: a worker process could not start" in errors


def serving(process: subprocess.Popen[str], folder: Path) -> set[int]:
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
        shared = Listening(listening, State(lambda _: False))
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


def test_a_taken_port_is_told_from_an_address_that_is_not_ours() -> None:
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=f"port {port} on 127.0.0.1 is in use.*--port"):
            listen("127.0.0.1", port)
    with pytest.raises(InputError, match=r"cannot listen on 203\.0\.113\.1"):
        listen("203.0.113.1", 0)


@pytest.mark.needs("IPv6")
@pytest.mark.parametrize("host", ["::", "0:0:0:0:0:0:0:0"])
def test_all_addresses_are_those_of_both_families(host: str) -> None:
    with listen(settings(host=host).host, 0) as listening:
        port = listening.getsockname()[1]
        for address in ("127.0.0.1", "::1"):
            socket.create_connection((address, port), 5).close()
    with listen("::1", 0) as listening, pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", listening.getsockname()[1]), 5)


def test_without_ipv6_all_addresses_are_of_ipv4(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(socket, "has_dualstack_ipv6", lambda: False)
    with listen("::", 0) as listening:
        assert listening.family == socket.AF_INET
        socket.create_connection(("127.0.0.1", listening.getsockname()[1]), 5).close()
    assert "lacks IPv6" in caplog.text


@pytest.mark.needs("the name localhost")
def test_a_name_of_both_families_is_its_address_of_ipv4() -> None:
    with listen("localhost", 0) as listening:
        assert listening.getsockname()[0] == "127.0.0.1"
    with pytest.raises(InputError, match=r"cannot listen on nowhere\.invalid"):
        listen("nowhere.invalid", 0)


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

STARTING = """
import os, signal, socket
from starlette.applications import Starlette
from server.processes import run

def stopped_meanwhile(*arguments, pair=socket.socketpair):
    os.kill(os.getpid(), signal.SIGTERM)
    return pair(*arguments)

socket.socketpair = stopped_meanwhile  # an event loop makes one
run(Starlette(), socket.create_server(("127.0.0.1", 0)))
print("stopped")
"""
SCRIPTS = {"exception is ignored": IGNORED, "just forked": FORKED, "making a loop": STARTING}


@linux
@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
def test_a_signal_is_not_lost(script: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "stopped\n", "")


@pytest.fixture
def index(tmp_path: Path, photos: Path) -> Path:
    return index_drawings(tmp_path / "index", photos)


def test_only_an_index_in_columns(index: Path) -> None:
    def is_one(**values: Any) -> bool:
        return can_be_inherited(settings(index=index, **values))

    assert is_one() and is_one(engine="columns")
    assert not is_one(engine="lucene")
    assert not is_one(milvus="milvus://127.0.0.1:1")


def test_it_is_let_go_once_its_name_stands_for_another(index: Path, tmp_path: Path) -> None:
    take_snapshot(index, tmp_path / "copy")
    set_alias(tmp_path / "prod", index)
    inherited = Inherited(open_backends(settings(index=tmp_path / "prod")), tmp_path / "prod")
    inherited.prepare()
    inherited.look()
    assert inherited.backends is not None
    set_alias(tmp_path / "prod", tmp_path / "copy")
    inherited.look()
    assert inherited.backends is None


def test_preparing_starts_no_java_and_no_thread(index: Path) -> None:
    script = f"""
import sys, threading
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from server.backends import open_backends
from server.processes import Inherited, java_runs
from tests.server.apps import settings
chosen = settings(index=Path({str(index)!r}))
Inherited(open_backends(chosen), chosen.index).prepare()
assert threading.active_count() == 1
assert "server.preloaded" in sys.modules and not java_runs()
loaded = {{"jnius", "torch", "transformers", "faiss"}} & set(sys.modules)
assert not loaded, loaded
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)


def test_workers_answer_as_one_process_and_one_that_died_is_replaced(index: Path) -> None:
    """Without Java, and no pages of Lucene's files."""
    query, chosen = {"q": "a red dog", "explain": "true"}, settings(index=index)
    closing = {"Connection": "close"}  # on connections of their own, which both workers take
    with client_of(create_app(open_backends(chosen), chosen)) as client:
        right = client.get("/v1/search", params=query).json()["hits"]
    threads: set[str] = set()
    mapped = ""
    with served(index, "--workers", "2", "--set", "rate=0") as (address, pid):

        def check_answers() -> None:
            for _ in range(6):
                found = httpx.get(f"{address}/v1/search", params=query, headers=closing, timeout=60)
                assert found.json()["hits"] == right != []

        check_answers()
        while len(workers_of(pid)) < 2:
            time.sleep(0.01)
        first, second = workers_of(pid)
        for worker in (first, second):
            tasks = Path(f"/proc/{worker}/task").iterdir()
            threads |= {(task / "comm").read_text().split()[0] for task in tasks}
            mapped += Path(f"/proc/{worker}/maps").read_text()
        os.kill(first, signal.SIGKILL)
        while first in workers_of(pid) or len(workers_of(pid)) < 2:
            pass
        assert second in workers_of(pid)
        check_answers()
    assert "C1" not in threads  # which compiles for Java
    assert f"{index}/segments/" in mapped and f"{index}/lucene/" not in mapped


@pytest.mark.parametrize("seconds", [0, 0.1, 0.2, 0.4, 0.8] if EVERY else [0.2])
def test_a_server_that_is_stopped_at_once_ends(index: Path, seconds: float) -> None:
    """While its first worker answers, and the others are forked."""
    with served(index, "--workers", "3"):
        time.sleep(seconds)
