"""Several servers of one index, and commands, write in turn."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import httpx
import pytest

from indexer.engines.open import open_index
from indexer.maintenance.combine import split_index
from indexer.maintenance.copies import restore_snapshot, take_snapshot
from indexer.manifest import is_sharded
from indexer.store.changes import Delete
from indexer.update.writer import open_writer
from indexer.verify import verify_index
from server.client.client import Client
from tests.needs import EVERY
from tests.server.apps import make_key
from tests.server.fake import DRAWINGS
from tests.server.served import served

ENOUGH = 4  # images that every thread leaves, so that all had their turns


@contextmanager
def several(index: Path, count: int, *options: str) -> Iterator[tuple[list[str], str]]:
    """Addresses of servers of one index, and a key that may write."""
    keys = index.parent / "keys.json"
    key = make_key(keys, "write")
    options = ("--keys", str(keys), "--set", "rate=0", *options)
    with ExitStack() as servers:
        yield [servers.enter_context(served(index, *options))[0] for _ in range(count)], key


@pytest.fixture(params=["whole", "sharded"])
def index(request: pytest.FixtureRequest, drawings: Path, tmp_path: Path) -> Path:
    if request.param == "sharded":
        split_index(drawings, tmp_path / "index", 2)
    else:
        shutil.copytree(drawings, tmp_path / "index")
    return tmp_path / "index"


def command(*arguments: object) -> None:
    line = [sys.executable, "-m", "sparta", *map(str, arguments)]
    subprocess.run(line, check=True, capture_output=True, text=True)


def writer(address: str, key: str, name: str, stop: Event) -> tuple[set[str], Counter[Any]]:
    """Write enough and until told to stop: what must be there at the end, and the answers."""
    left, answers = set[str](), Counter[Any]()

    def send(method: str, path: str, **options: Any) -> None:
        while True:
            answer = client.request(method, f"/v1/images/{path}", **options)
            answers[answer.status_code, "Retry-After" in answer.headers] += 1
            if answer.status_code != 503:
                break
            time.sleep(0.2)

    with httpx.Client(
        base_url=address, headers={"Authorization": f"Bearer {key}"}, timeout=60
    ) as client:
        number = 0
        while len(left) < ENOUGH or not stop.is_set():
            number += 1
            one = f"{name}-{number}"
            send("PUT", f"{one}?refresh={'none' if number % 2 else 'wait'}", json=ONE)
            if number % 3:
                left.add(one)
            else:
                send("DELETE", one)
    return left, answers


ONE = {"terms": {"purple": 9}}


@pytest.mark.parametrize("count", [2, 3] if EVERY else [2])
def test_all_and_commands_write_at_the_same_time(index: Path, count: int) -> None:
    """Every change that was acknowledged is there at the end; none is refused but for a command."""
    gone = "garden/one.png"
    with (
        several(index, count) as (addresses, key),
        ThreadPoolExecutor(2 * count) as threads,
    ):
        stop = Event()
        running = [
            threads.submit(writer, address, key, f"{turn}-{number}", stop)
            for number, address in enumerate(addresses)
            for turn in range(2)
        ]
        try:
            command("delete", index, gone)
            command("merge", index)
        finally:
            stop.set()
        done = [one.result() for one in running]
    left, answers = set(DRAWINGS) - {gone}, Counter[tuple[int, bool]]()
    for own, found in done:
        left |= own
        answers += found
    assert set(answers) <= {(200, False), (503, True)}, answers
    with closing(open_index(index)) as searcher:
        assert set(searcher.ids()) == left
    assert verify_index(index) == []


def test_an_idle_writer_lets_go_at_once(index: Path, tmp_path: Path) -> None:
    """It keeps the index for the next request, until a command or another server asks for it."""
    with several(index, 2) as (addresses, key):
        first, second = (Client(address, api_key=key, retries=0) for address in addresses)
        with first, second:
            second.put_image("a", terms={"purple": 9})  # its writer has started
            for number in range(3):
                for one in (first, second):
                    started = time.monotonic()
                    one.put_image(f"{number}", terms={"purple": 9})
                    assert number == 0 or time.monotonic() - started < 5
            started = time.monotonic()
            if is_sharded(index):
                with open_writer(index) as writer:
                    writer.write([Delete("a")])
            else:
                take_snapshot(index, tmp_path / "copy")
                restore_snapshot(tmp_path / "copy", index)
            assert time.monotonic() - started < 5
            second.put_image("b", terms={"purple": 9})


def test_a_command_that_writes_for_long_is_waited_for_by_clients(index: Path) -> None:
    with several(index, 1) as ([address], key), Client(address, api_key=key) as client:
        with open_writer(index):
            headers = {"Authorization": f"Bearer {key}"}
            answer = httpx.put(f"{address}/v1/images/a", json=ONE, headers=headers, timeout=60)
            assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
            assert answer.json()["type"].endswith(":index-busy")
            assert "is being written by process" in answer.json()["detail"]
        with ThreadPoolExecutor(1) as threads:
            with open_writer(index):
                waiting = threads.submit(client.put_image, "a", terms={"purple": 9})
                time.sleep(1)
                assert not waiting.done()
            assert waiting.result().result == "created"
