"""Rebuilt indexes are opened; damaged ones are refused, and the former one goes on."""

from __future__ import annotations

import gc
import logging
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from fastapi.testclient import TestClient

from indexer.state import index_version, place_of
from indexer.store.commit import COMMIT, ReplacedError
from server import watch as module
from server.app import create_app
from server.backends import Backends, Current, open_backends
from server.watch import IndexWatch, stamp_of
from server.writing.forward import Board
from sparta.errors import InputError
from sparta.files import replace_folder, work_folder
from tests.server.apps import client_of, settings
from tests.server.drawings import index_drawings


class Book(Backends):
    """Backends that are nothing but their version, and note that they were closed."""

    version, place = "", 0

    def __init__(self, version: str, place: int = 0) -> None:
        self.version, self.place = version, place
        self.closed = False
        self.newer: Book | Exception | None = None

    def refreshed(self) -> Book | None:
        if isinstance(self.newer, Exception):
            raise self.newer
        return self.newer

    def close(self) -> None:
        self.closed = True


class Watched:
    """A folder with a manifest of any content, watched."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.results = folder, list[str]()
        self.problem: Exception | None = None
        self.write("first")
        self.current = Current(self.book())
        self.watch = self.watching()

    def watching(self, board: Board | None = None) -> IndexWatch:
        """Another watch of the folder, of a worker whose processes share a board."""
        given = () if board is None else (board,)
        return IndexWatch(self.folder, self.reopen, self.current, self.results.append, *given)

    def write(self, content: str) -> None:
        new = self.folder / "new"
        new.write_text(content)
        new.rename(self.folder / "manifest.json")

    def reopen(self) -> Book:
        if self.problem:
            raise self.problem
        return self.book()

    def book(self, commit: str = "") -> Book:
        return Book(index_version(self.folder) + commit, place_of(self.folder))

    @property
    def shown(self) -> Book:
        """What requests use."""
        assert isinstance(self.current.backends, Book)
        return self.current.backends


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path)


def test_nothing_happens_until_the_manifest_is_replaced(watched: Watched) -> None:
    first = watched.shown
    watched.watch.look()
    watched.write("first")  # as it was
    watched.watch.look()
    assert watched.shown is first
    watched.write("second")
    watched.watch.look()
    assert watched.shown.version == index_version(watched.folder) != first.version
    assert not first.closed
    watched.watch.look()
    assert first.closed
    assert watched.results == ["opened"]


def test_what_cannot_be_opened_is_refused_once_and_tried_again(
    watched: Watched, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, watched.problem = watched.shown, InputError("columns are damaged")
    watched.write("second")
    for _ in range(3):
        watched.watch.look()
    assert watched.results == ["refused"]
    assert caplog.messages == [
        "the rebuilt index is refused, the former one stays: columns are damaged"
    ]
    assert watched.shown is first and not first.closed
    watched.problem = None
    watched.watch.look()
    assert watched.shown is first
    monkeypatch.setattr(module, "RETRY", -1.0)
    watched.write("third")
    watched.problem = RuntimeError("a bug")
    watched.watch.look()
    watched.problem = None
    watched.watch.look()
    assert watched.results == ["refused", "refused", "opened"]


def test_replaced_while_it_was_opened(watched: Watched) -> None:
    opened: list[str] = []

    def reopen() -> Book:
        opened.append(index_version(watched.folder))
        if len(opened) == 1:
            watched.write("third")
            raise InputError("the files do not fit together")
        return watched.book()

    watch = IndexWatch(watched.folder, reopen, watched.current, watched.results.append)
    watched.write("second")
    watch.look()
    assert watched.results == []
    watch.look()
    assert watched.results == ["opened"]
    assert watched.shown.version == index_version(watched.folder)


def test_a_dense_part_counts(watched: Watched) -> None:
    before = stamp_of(watched.folder)
    (watched.folder / "manifest.json").rename(watched.folder / "away")
    assert stamp_of(watched.folder) is None  # while it is replaced
    watched.watch.look()
    assert watched.results == []
    (watched.folder / "away").rename(watched.folder / "manifest.json")
    part = watched.folder / "dense" / "vse++" / "manifest.json"
    part.parent.mkdir(parents=True)
    part.touch()
    assert stamp_of(watched.folder) != before
    watched.watch.look()
    assert watched.results == ["opened"]


def commit(watched: Watched, number: int) -> None:
    (watched.folder / COMMIT).write_bytes(number.to_bytes(16))


def test_commits_are_followed(watched: Watched, caplog: pytest.LogCaptureFixture) -> None:
    watched.watch.look()
    first = watched.shown
    first.newer = watched.book(".10")
    watched.watch.look()
    assert watched.shown is first  # no commit
    for number in (9, 10):
        commit(watched, number)
        watched.watch.look()
    assert watched.shown is first.newer
    watched.watch.look()
    assert first.closed and watched.results == ["refreshed"]
    watched.write("first")  # its hash is the version's, before the dot
    watched.watch.look()
    assert watched.results == ["refreshed"]
    watched.shown.newer = InputError("images.arrow is damaged")
    commit(watched, 11)
    for _ in range(3):
        watched.watch.look()
    assert caplog.messages == [
        "a commit of the index is refused, the former one stays: images.arrow is damaged"
    ]


def test_a_commit_of_an_index_that_is_being_replaced_is_not_used(watched: Watched) -> None:
    class Replaced(Book):
        def refreshed(self) -> Book | None:
            watched.write("second")
            return super().refreshed()

    watched.current.change(first := Replaced(watched.shown.version, watched.shown.place))
    first.newer = newer = Book("of the second index")
    watched.watch.look()
    commit(watched, 1)
    watched.watch.look()
    assert newer.closed
    watched.watch.look()
    assert watched.shown.version == index_version(watched.folder)
    assert watched.results == ["opened"]


def test_what_was_committed_before_the_start_is_shown_from_the_first_request_on(
    watched: Watched,
) -> None:
    """A worker may open an index just before a commit, and answer after it."""
    board, place = Board(1), place_of(watched.folder)
    watched.watch = watched.watching(board)
    commit(watched, 1)
    board.committed()
    watched.shown.newer = newer = watched.book(".1")
    assert board.is_shown(1, place)  # nobody waits for it yet
    watched.watch.start()
    assert watched.shown is newer
    assert board.is_shown(1, place) and not board.is_shown(2, place)
    watched.watch.stop()
    assert board.is_shown(2, place)  # nobody waits for it any more


def test_commits_of_another_index_may_have_the_same_names(watched: Watched) -> None:
    def reopen() -> Book:
        opened = watched.reopen()
        opened.newer = watched.book(".1")  # committed just after it was opened
        return opened

    watch = IndexWatch(watched.folder, reopen, watched.current, watched.results.append)
    commit(watched, 1)
    watch.look()
    watched.write("second")
    watch.look()
    assert watched.shown.version == f"{index_version(watched.folder)}.1"
    assert watched.results == ["opened", "refreshed"]


def test_a_commit_that_does_not_continue_the_shown_one_is_opened_anew(watched: Watched) -> None:
    board = Board(1)
    board.show(0, 0)
    watch = watched.watching(board)
    watch.look()
    first = watched.shown
    commit(watched, 1)
    first.newer = ReplacedError("an older state")
    watched.problem = InputError("columns are damaged")
    board.committed()
    watch.look()
    assert watched.shown is first and not board.is_shown(1, first.place)
    watched.problem = None
    watch._retry = 0
    watch.look()
    assert watched.shown is not first
    assert watched.results == ["refused", "opened"]
    assert board.is_shown(1, first.place)


def test_what_is_replaced_meanwhile_is_not_shown(watched: Watched) -> None:
    class Replaced(Book):
        def refreshed(self) -> Book | None:
            watched.write("second")
            return None

    board = Board(1)
    board.show(0, 0)
    watch = watched.watching(board)
    watch.look()
    watched.current.change(Replaced(watched.shown.version, watched.shown.place))
    commit(watched, 1)
    board.committed()
    watch.look()
    assert not board.is_shown(1, place_of(watched.folder))
    watch.look()
    assert board.is_shown(1, place_of(watched.folder))
    assert watched.results == ["opened"]


# ---- leases: what was replaced is closed when its last user has gone, and not before -------------


def test_the_last_user_lets_it_be_closed() -> None:
    old, new = Book("1"), Book("2")
    current = Current(old)
    first, second = current.take({}), current.take({})
    assert first is second and first.backends is old
    current.change(new)
    third = current.take({})
    assert third.backends is current.backends is new
    for lease in (first, second):
        current.close_unused()
        assert not old.closed
        lease.give_back()
    current.close_unused()
    assert old.closed and not new.closed
    current.close()
    assert new.closed


# ---- a whole server ----------------------------------------------------------------------------


def rebuild(index: Path, photos: Path, features: str, damaged: bool = False) -> None:
    """Replace an index as `sparta index` does."""
    with work_folder(index) as work:
        new = index_drawings(work / "new", photos, features=features)
        if damaged:
            [file] = new.glob("segments/*/images.arrow")
            file.write_bytes(bytes(file.stat().st_size))
        replace_folder(new, index, work)


def changing(index: Path, monkeypatch: pytest.MonkeyPatch) -> TestClient:
    """A client of a server that looks at its index again and again."""
    monkeypatch.setattr(module, "INTERVAL", 0.01)
    served = settings(index=index, rate=0)
    opened = partial(open_backends, served)
    return client_of(create_app(opened(), served, reopen=opened))


def mapped(index: Path) -> list[str]:
    """Files of the former index that are still mapped."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return [line for line in lines if str(index.parent) in line and "(deleted)" in line]


def ask(client: TestClient, **parameters: Any) -> str:
    """The version of the index in an answer; it is in the header too."""
    answer = client.get("/v1/search", params={"q": "red", **parameters})
    assert [hit["score"] for hit in answer.json()["hits"]] == [200, 120, 20]
    version = str(answer.json()["index_version"])
    assert answer.headers["x-index-version"] == version
    return version


def test_a_server_changes_over(
    tmp_path: Path, photos: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    changed = Event()
    record = IndexWatch.look

    def look(watch: IndexWatch) -> None:
        record(watch)
        changed.set()

    monkeypatch.setattr(IndexWatch, "look", look)
    index = index_drawings(tmp_path / "index", photos)
    serving = changing(index, monkeypatch)
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        with serving as client:
            first = ask(client)
            assert first == index_version(index)
            rebuild(index, photos, "second")
            second = index_version(index)
            while ask(client, explain=True) == first:
                changed.wait(0.01)
            for _ in range(3):
                changed.clear()
                changed.wait(20)
            assert ask(client) == second
            assert mapped(index) == []
            rebuild(index, photos, "damaged", damaged=True)
            while "refused" not in caplog.text:
                changed.wait(0.01)
            assert ask(client) == second
            assert "images.arrow" in caplog.text
            rebuild(index, photos, "third")
            while ask(client) == second:
                changed.wait(0.01)
            for _ in range(3):
                changed.clear()
                changed.wait(20)
            assert mapped(index) == []  # nor is what was refused
            metrics = client.get("/metrics").text
            assert 'visualsparta_index_changes_total{result="opened"} 2.0' in metrics
            assert 'visualsparta_index_changes_total{result="refused"} 1.0' in metrics
            assert client.get("/v1/backends").headers["x-index-version"] == ask(client)
    finally:
        gc.unfreeze()
        gc.enable()
    assert any(record.levelno == logging.WARNING for record in caplog.records)
