"""A server of two workers that is written to: its writer comes, is killed, and comes again."""

from __future__ import annotations

import os
import re
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from indexer.engines.open import open_index
from tests.server.fake import DRAWINGS
from tests.server.served import written


@pytest.fixture(scope="module")
def index(drawings: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shutil.copytree(drawings, tmp_path_factory.mktemp("written") / "index")


@pytest.fixture(scope="module")
def server(index: Path) -> Iterator[tuple[httpx.Client, int]]:
    with written(index, "--workers", "2") as server:
        yield server


def writer_of(pid: int, index: Path) -> int:
    """The process that holds the index's lock: a child of the server."""
    found = re.search(r'"pid": (\d+)', (index.parent / f".{index.name}.lock").read_text())
    assert found
    parent = Path(f"/proc/{found[1]}/stat").read_text().rpartition(")")[2].split()[1]
    assert int(parent) == pid
    return int(found[1])


def hits(client: httpx.Client, query: str) -> list[str]:
    response = client.get("/v1/search", params={"q": query, "k": 50})
    return [hit["image_id"] for hit in response.json()["hits"]]


def test_both_workers_show_what_was_waited_for(
    server: tuple[httpx.Client, int], index: Path
) -> None:
    client, pid = server
    for number in range(6):
        image_id = f"new/{number}.jpg"
        body = {"terms": {"red": 110 + number}, "metadata": {"n": number}}
        answer = client.put(f"/v1/images/{image_id}", json=body).json()
        assert answer["result"] == "created"
        for _ in range(6):  # connections of their own, so both workers answer
            assert hits(client, "red")[0] == image_id
    deleted = client.post("/v1/images/delete", json={"filter": "n:0..2"}).json()
    assert deleted["deleted"] == 3
    for _ in range(6):
        assert (
            len(hits(client, "red")) == len([d for d in DRAWINGS.values() if "red" in d.terms]) + 3
        )
    os.kill(writer_of(pid, index), signal.SIGKILL)
    assert client.patch("/v1/images/new/5.jpg", json={"n": None, "m": 1}).status_code in (200, 503)
    answer = client.patch("/v1/images/new/5.jpg", json={"n": None, "m": 1})
    assert answer.json()["metadata"] == {"upload": "", "m": 1}
    for _ in range(4):
        assert client.get("/v1/images/new/5.jpg").json()["metadata"] == {"upload": "", "m": 1}


def test_writes_that_nobody_waits_for_survive_a_kill(
    server: tuple[httpx.Client, int], index: Path
) -> None:
    client, pid = server
    for number in range(20):
        body = {"terms": {"blue": 80 + number}}
        assert client.put(f"/v1/images/b{number}?refresh=none", json=body).status_code == 200
    os.kill(writer_of(pid, index), signal.SIGKILL)
    # The next writer applies what was acknowledged.
    while client.patch("/v1/images/b0", json={"x": 1}).status_code != 200:
        time.sleep(0.1)
    added = [image_id for image_id in hits(client, "blue") if image_id not in DRAWINGS]
    assert added == [f"b{number}" for number in reversed(range(20))]


def test_the_index_is_whole_afterwards(server: tuple[httpx.Client, int], index: Path) -> None:
    with closing(open_index(index)) as searcher:
        assert len(searcher) == len(DRAWINGS) + 3 + 20
