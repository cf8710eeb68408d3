"""A server of two workers that is written to, killed, and given other indexes."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from indexer.engines.open import open_index
from indexer.maintenance.copies import restore_snapshot, set_alias, take_snapshot
from server.commands.serve import _index_of
from sparta.errors import InputError
from tests.needs import crossed
from tests.server.apps import make_key
from tests.server.drawings import index_drawings
from tests.server.fake import DRAWINGS, draw
from tests.server.served import await_end, served, workers_of, written


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


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_closed_terminal_ends_a_server_in_order(
    index: Path,
    tmp_path_factory: pytest.TempPathFactory,
    workers: str,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    """Nothing stays in the temporary folder."""
    folder = tmp_path_factory.mktemp("t")  # a socket's path may have 107 bytes
    monkeypatch.setenv("TMPDIR", str(folder))
    # Under nohup these tests ignore it, and so would a server that they start.
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    request.addfinalizer(lambda: signal.signal(signal.SIGHUP, before))
    with served(index, "--workers", workers) as (address, pid):
        httpx.get(f"{address}/livez", timeout=60)
        os.kill(pid, signal.SIGHUP)
        await_end(pid)
    assert not [*folder.glob("visualsparta-*")]


@pytest.mark.parametrize(
    ("ended", "number"), crossed(["killed", "in order"], [signal.SIGTERM, signal.SIGINT])
)
def test_a_server_that_stops_answers_what_waits_for_its_workers(
    drawings: Path, tmp_path: Path, ended: str, number: signal.Signals
) -> None:
    index = shutil.copytree(drawings, tmp_path / "index")
    with written(index, "--workers", "2") as (client, pid), ThreadPoolExecutor(4) as pool:
        assert client.put("/v1/images/first", json={"terms": {"red": 1}}).is_success
        one = workers_of(pid)[0]
        os.kill(one, signal.SIGSTOP)  # it shows no commit until it ends
        bodies = [{"terms": {"red": 1}}, {"terms": {"blue": 1}}, {"terms": {"green": 1}}]
        sent = [
            pool.submit(client.put, f"/v1/images/{n}", json=body) for n, body in enumerate(bodies)
        ]
        time.sleep(1)
        assert not any(answer.done() for answer in sent)
        start = time.monotonic()
        os.kill(pid, number)
        time.sleep(0.3)
        os.kill(one, signal.SIGKILL if ended == "killed" else signal.SIGCONT)
        assert [answer.result().status_code for answer in sent] == [200, 200, 200]
        await_end(pid)  # by the first signal
        assert time.monotonic() - start < 25
    with closing(open_index(index)) as searcher:
        assert len(searcher) == len(DRAWINGS) + 4


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_killed_server_leaves_nothing_to_the_next_one(
    index: Path,
    tmp_path_factory: pytest.TempPathFactory,
    workers: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What a running server needs stays."""
    folder = tmp_path_factory.mktemp("t")
    monkeypatch.setenv("TMPDIR", str(folder))
    with written(index, "--workers", workers) as (client, _):
        with pytest.raises(AssertionError), served(index, "--workers", workers) as (_, pid):
            os.kill(pid, signal.SIGKILL)
        assert len([*folder.glob("visualsparta-*")]) == 2
        with served(index, "--workers", workers):
            assert len([*folder.glob("visualsparta-*")]) == 2
        assert client.put("/v1/images/kept", json={"terms": {"purple": 1}}).status_code == 200
        assert client.delete("/v1/images/kept").status_code == 200
    assert not [*folder.glob("visualsparta-*")]


def test_an_upload_that_ends_early_is_no_error_of_the_server(index: Path, tmp_path: Path) -> None:
    with (tmp_path / "log").open("w+b") as log:
        with served(index, "--keys", str(index.parent / "keys.json"), output=log) as (address, _):
            key = make_key(index.parent / "keys.json", "write")
            url = httpx.URL(address)
            for target in ("PUT /v1/images/a", "POST /v1/images/batch", "POST /v1/search"):
                head = f"{target} HTTP/1.1\r\nHost: {url.netloc.decode()}\r\nX-API-Key: {key}\r\n"
                head += "Content-Type: application/json\r\nContent-Length: 9000\r\n\r\n"
                with socket.create_connection((url.host, url.port or 80)) as connection:
                    connection.sendall(head.encode() + b"x" * 100)
                    time.sleep(0.1)
            assert httpx.get(f"{address}/livez", timeout=60).status_code == 200
        log.seek(0)
        assert b"Traceback" not in log.read()


def test_a_name_is_set_and_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    index_drawings(tmp_path / "index-7", draw(tmp_path / "photos"))
    assert _index_of(Path("prod=index-7"), check=True) == Path("index-7")
    assert not Path("prod").exists()
    assert _index_of(Path("prod=index-7"), check=False) == Path("prod")
    assert Path("prod").resolve() == tmp_path / "index-7"
    assert _index_of(Path("index-7"), check=False) == Path("index-7")
    Path("index-7").rename("a=b")
    assert _index_of(Path("a=b"), check=False) == Path("a=b")
    with pytest.raises(InputError, match="absent"):
        _index_of(Path("prod=absent"), check=False)


def test_copies_take_one_anothers_place_under_a_server(tmp_path: Path, photos: Path) -> None:
    first, second, name = tmp_path / "7", tmp_path / "8", tmp_path / "prod"
    set_alias(name, index_drawings(first, photos))
    with written(name, "--workers", "2", "--set", "rate=0") as (client, _):

        def put(image_id: str) -> None:
            response = client.put(f"/v1/images/{image_id}", json={"terms": {"purple": 9}})
            assert response.status_code == 200, response.text

        def of_both() -> list[str]:
            """Of both workers, by connections of their own."""
            answers = {tuple(sorted(hits(client, "purple"))) for _ in range(8)}
            return [*answers.pop()] if len(answers) == 1 else ["different answers"]

        put("b")
        take_snapshot(first, second)
        put("a")
        assert of_both() == ["a", "b"]
        restore_snapshot(second, first)
        end = time.monotonic() + 20
        while of_both() != ["b"]:
            assert time.monotonic() < end
        put("c")
        assert of_both() == ["b", "c"]
        set_alias(name, second)
        put("d")
        assert of_both() == ["b", "d"]
        set_alias(name, first)
        put("e")
        assert of_both() == ["b", "c", "e"]
        first.rename(tmp_path / "moved")
        shutil.copytree(second, first)
        put("f")
        assert of_both() == ["b", "d", "f"]
