"""`sparta serve NAME=INDEX`, and other indexes that the name stands for later."""

from __future__ import annotations

import os
import shutil
import signal
import time
from pathlib import Path

import pytest

from indexer.care.copies import restore_snapshot, set_alias, take_snapshot
from server.commands.serve import _index_of
from sparta.errors import InputError
from sparta.lock import lock_path
from tests.server.commands.test_serve_writes import hits, writer_of
from tests.server.drawings import index_drawings
from tests.server.fake import draw
from tests.server.served import written


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
    with written(name, "--workers", "2", "--rate", "0") as (client, pid):

        def put(image_id: str) -> None:
            response = client.put(f"/v1/images/{image_id}", json={"terms": {"purple": 9}})
            assert response.status_code == 200, response.text

        def found() -> list[str]:
            """Of both workers, by connections of their own."""
            answers = {tuple(sorted(hits(client, "purple"))) for _ in range(8)}
            return [*answers.pop()] if len(answers) == 1 else ["different answers"]

        put("b")
        take_snapshot(first, second)
        put("a")
        assert found() == ["a", "b"]
        with pytest.raises(InputError, match="7 is being written by process"):
            restore_snapshot(second, first)
        os.kill(writer_of(pid, first), signal.SIGTERM)
        while lock_path(first).exists():
            time.sleep(0.01)
        restore_snapshot(second, first)
        end = time.monotonic() + 20
        while found() != ["b"]:
            assert time.monotonic() < end
        put("c")
        assert found() == ["b", "c"]
        set_alias(name, second)
        put("d")
        assert found() == ["b", "d"]
        set_alias(name, first)
        put("e")
        assert found() == ["b", "c", "e"]
        first.rename(tmp_path / "moved")
        shutil.copytree(second, first)
        put("f")
        assert found() == ["b", "d", "f"]
