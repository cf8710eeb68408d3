"""An index that the first process opens for its workers."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from indexer.care.copies import set_alias, take_snapshot
from server.app import create_app
from server.backends import open_backends
from server.processes import Inherited, can_be_inherited
from tests.server.apps import client_of, settings
from tests.server.drawings import index_drawings
from tests.server.served import served, workers_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="workers are forks on Linux alone")


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
        subprocess.run(["kill", "-9", str(first)], check=True)
        while first in workers_of(pid) or len(workers_of(pid)) < 2:
            pass
        assert second in workers_of(pid)
        check_answers()
    assert "C1" not in threads  # which compiles for Java
    assert f"{index}/segments/" in mapped and f"{index}/lucene/" not in mapped


@pytest.mark.parametrize("seconds", [0, 0.1, 0.2, 0.4, 0.8])
def test_a_server_that_is_stopped_at_once_ends(index: Path, seconds: float) -> None:
    """While its first worker answers, and the others are forked."""
    with served(index, "--workers", "3"):
        time.sleep(seconds)
