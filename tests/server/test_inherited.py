"""An index that the first process opens for its workers."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from indexer.care.aliases import set_alias
from indexer.care.snapshots import take_snapshot
from indexer.columns.rebuild import rebuild_columns
from indexer.live.changes import Delete
from indexer.update.writer import open_writer
from server.app import create_app
from server.backends import open_backends
from server.inherited import Inherited, can_be_inherited
from sparta.errors import InputError
from tests.server.apps import client_of, settings
from tests.server.drawings import index_drawings
from tests.server.served import served, workers_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="workers are forks on Linux alone")


@pytest.fixture
def index(tmp_path: Path, photos: Path) -> Path:
    folder = index_drawings(tmp_path / "index", photos)
    rebuild_columns(folder)
    return folder


def test_only_an_index_in_columns_that_was_not_written_to(index: Path) -> None:
    def is_one(**values: Any) -> bool:
        return can_be_inherited(settings(index=index, **values))

    assert is_one() and is_one(engine="columns")
    assert not is_one(engine="lucene")
    assert not is_one(milvus="milvus://127.0.0.1:1")
    with open_writer(index) as writer:
        writer.write([Delete("garden/one.png")])
    assert not is_one()
    (index / "manifest.json").unlink()
    with pytest.raises(InputError, match="is not an index"):
        is_one()


def test_it_is_let_go_once_another_index_is_there(index: Path, tmp_path: Path) -> None:
    chosen = settings(index=index)
    inherited = Inherited(open_backends(chosen), index)
    inherited.prepare()
    inherited.look()
    assert inherited.backends is not None
    (index / "manifest.json").rename(tmp_path / "manifest.json")
    inherited.look()
    assert inherited.backends is None


def test_it_is_let_go_once_its_name_stands_for_a_copy(index: Path, tmp_path: Path) -> None:
    take_snapshot(index, tmp_path / "copy")
    set_alias(tmp_path / "prod", index)
    inherited = Inherited(open_backends(settings(index=tmp_path / "prod")), tmp_path / "prod")
    set_alias(tmp_path / "prod", tmp_path / "copy")
    inherited.look()
    assert inherited.backends is None


def test_preparing_starts_no_java_and_no_thread(index: Path) -> None:
    script = f"""
import sys, threading
from pathlib import Path
from server.backends import open_backends
from server.inherited import Inherited, java_runs
from tests.server.apps import settings
chosen = settings(index=Path({str(index)!r}))
Inherited(open_backends(chosen), chosen.index).prepare()
assert threading.active_count() == 1
assert not java_runs()
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)


def test_workers_answer_as_one_process_and_one_that_died_is_replaced(index: Path) -> None:
    query = {"q": "a red dog", "explain": "true"}

    def hits(answer: Any) -> Any:
        return answer.json()["hits"]

    chosen = settings(index=index)
    with served(index, "--workers", "2", "--rate", "0") as (address, pid):

        def ask() -> Any:
            # On connections of their own, which both workers take.
            closing = {"Connection": "close"}
            return hits(
                httpx.get(f"{address}/v1/search", params=query, headers=closing, timeout=60)
            )

        backends = open_backends(chosen)
        with client_of(create_app(backends, chosen)) as client:
            right = hits(client.get("/v1/search", params=query))
        assert right and all(ask() == right for _ in range(6))
        first, second = workers_of(pid)
        subprocess.run(["kill", "-9", str(first)], check=True)
        while first in workers_of(pid) or len(workers_of(pid)) < 2:
            pass
        assert second in workers_of(pid)
        assert all(ask() == right for _ in range(6))


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_workers_have_little_of_java_and_lucene(index: Path) -> None:
    """Quick compilation alone, and no pages of Lucene's files, which are read for explanations."""
    query = {"q": "a red dog", "explain": "true"}
    threads: set[str] = set()
    mapped = ""
    with served(index, "--workers", "2", "--rate", "0") as (address, pid):
        assert httpx.get(f"{address}/v1/search", params=query, timeout=60).json()["hits"]
        for worker in workers_of(pid):  # one of them has answered
            tasks = Path(f"/proc/{worker}/task").iterdir()
            threads |= {(task / "comm").read_text().split()[0] for task in tasks}
            mapped += Path(f"/proc/{worker}/maps").read_text()
    assert "C1" in threads and "C2" not in threads
    assert f"{index}/columns/" in mapped and f"{index}/lucene/" not in mapped


def test_what_explains_is_opened_at_the_start(index: Path) -> None:
    chosen = settings(index=index)
    backends = open_backends(chosen)
    searcher: Any = backends.default.searcher
    assert searcher._preparation._thread is None
    with client_of(create_app(backends, chosen)):
        searcher._preparation.wait()
        assert searcher._lucene._opened is not None


@pytest.mark.parametrize("seconds", [0, 0.1, 0.2, 0.4, 0.8])
def test_a_server_that_is_stopped_at_once_ends(index: Path, seconds: float) -> None:
    """While its first worker answers, and the others are forked."""
    with served(index, "--workers", "3"):
        time.sleep(seconds)
