"""Folders that are replaced as a whole, room on the disk, and one writer at a time."""

import errno
import logging
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from sparta import files
from sparta.errors import InputError


def folder(path: Path, content: str) -> Path:
    (path / "parts").mkdir(parents=True)
    (path / "complete").write_text(content)
    (path / "parts" / "0").write_text(content)
    return path


def names(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.iterdir())


@pytest.mark.parametrize(
    ("exchanged", "renames"),
    [(True, ["after work", "after ."]), (False, ["between work", "after work", "after ."])],
)
def test_everything_is_synced_before_and_after_the_renames(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exchanged: bool, renames: list[str]
) -> None:
    if not exchanged:
        monkeypatch.setattr(files, "_exchange", lambda *_: False)
    out = folder(tmp_path / "out", "old")
    work = files.make_work(out)
    new = folder(work / "new", "new")
    synced: list[str] = []

    def fsync(handle: int) -> None:
        stage = "after" if not new.exists() else "before" if out.exists() else "between"
        path = Path(f"/proc/self/fd/{handle}").readlink()
        synced.append(f"{stage} {path.relative_to(tmp_path)}".replace(work.name, "work"))

    monkeypatch.setattr(os, "fsync", fsync)
    files.replace_folder(new, out, work)
    assert sorted(synced[: -len(renames)]) == [
        "before work/new",
        "before work/new/complete",
        "before work/new/parts",
        "before work/new/parts/0",
    ]
    assert synced[-len(renames) :] == renames


def test_users_folders_of_any_name_are_left_alone(tmp_path: Path) -> None:
    out = folder(tmp_path / "out", "old")
    others = ["out.old", ".out.work-1-abcdefgh", ".out.work-", "out.work-1-abcdefgh"]
    for name in others:
        folder(tmp_path / name, "mine")
    # A work folder of another folder of a longer name.
    longer = files.make_work(tmp_path / "out.work-7")
    with files.work_folder(out) as work:
        files.replace_folder(folder(work / "new", "new"), out, work)
    assert (out / "complete").read_text() == "new"
    assert names(tmp_path) == sorted(["out", *others, longer.name])
    assert all((tmp_path / name / "parts" / "0").read_text() == "mine" for name in others)


@pytest.mark.parametrize("stage", ["interrupted", "finished", "killed early", "unmarked"])
def test_what_a_killed_process_left_is_removed(tmp_path: Path, stage: str) -> None:
    out = folder(tmp_path / "out", "content")
    work = files.make_work(out)
    assert files.find_work(out) == [work]
    if stage == "interrupted":
        out.rename(work / files.REPLACED)
        files.recover(out)
        files.remove_work(work)
    elif stage == "finished":
        folder(work / files.REPLACED, "old")
    elif stage == "killed early":
        (work / files.MARKER).unlink()
        (files.make_work(out) / files.MARKER).write_text("")
    with files.work_folder(out):
        pass
    assert (out / "complete").read_text() == "content"
    assert names(tmp_path) == ["out"]


@pytest.mark.parametrize("marker", ["{", '{"work_of": "other"}', "[]"])
def test_a_folder_with_another_marker_is_no_work_folder(tmp_path: Path, marker: str) -> None:
    (files.make_work(tmp_path / "out") / files.MARKER).write_text(marker)
    assert files.find_work(tmp_path / "out") == []


def test_a_replacement_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = folder(tmp_path / "out", "old")
    rename = Path.rename

    def failing(self: Path, target: Path) -> Path:
        if self.name == "new":
            raise OSError("disk unplugged")
        return rename(self, target)

    monkeypatch.setattr(files, "_exchange", lambda *_: False)
    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(OSError, match="unplugged"), files.work_folder(out) as work:
        files.replace_folder(folder(work / "new", "new"), out, work)
    assert (out / "parts" / "0").read_text() == "old"
    assert names(tmp_path) == ["out"]


def test_what_cannot_be_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    work = files.make_work(out)
    (work / "file").write_text("")
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", lambda *_, **__: _busy())
        files.remove_work(work)
    assert files.find_work(out) == [work]
    files.remove_work(work)
    assert names(tmp_path) == []


def _busy() -> None:
    raise OSError("busy")


def test_a_replaced_link_is_removed_and_its_target_stays(tmp_path: Path) -> None:
    target = folder(tmp_path / "target", "old")
    out = tmp_path / "out"
    out.symlink_to(target)
    with files.work_folder(out) as work:
        files.replace_folder(folder(work / "new", "new"), out, work)
    assert (out / "complete").read_text() == "new" and not out.is_symlink()
    assert (target / "complete").read_text() == "old"


@pytest.mark.parametrize("path", ["", ".", "..", "a/..", "/"])
def test_a_path_without_a_name_is_refused(path: str) -> None:
    with pytest.raises(InputError, match="names no folder: give a path that ends in a name"):
        files.check_name(Path(path))
    files.check_name(Path("out"))


def test_room_is_estimated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=2 * 10**9))
    files.check_room(tmp_path / "absent" / "out", 2 * 10**9)
    words = r"out needs about 3\.5 GB more, the disk has 2\.0 GB free: free some room, or choose"
    with pytest.raises(InputError, match=words):
        files.check_room(tmp_path / "absent" / "out", 3_500_000_000)


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device", "a/b"),
        OSError(errno.EDQUOT, "Disk quota exceeded"),
        OSError("Lucene cannot write: No space left on device"),
        RuntimeError("Error: write failed: No space left on device"),
        OSError("1000 requested and 512 written"),
    ],
)
def test_a_full_disk_is_one_line(error: Exception) -> None:
    words = r"^out: the disk is full: .* start again"
    with pytest.raises(InputError, match=words), files.full_disk_reported(Path("out")):
        raise error


def test_what_the_system_and_numpy_raise() -> None:
    full = Path("/dev/full")
    if full.exists():
        with (
            pytest.raises(InputError, match="the disk is full"),
            files.full_disk_reported(Path("out")),
            full.open("wb", buffering=0) as file,
        ):
            np.zeros(100_000).tofile(file)


HOLD = """
import os, sys, time
from pathlib import Path
from sparta.files import writing
with writing(Path(sys.argv[1])):
    if sys.argv[2] == "fork":
        parent, child = os.pipe()
        if os.fork() == 0:
            os.write(child, b"!")  # it has let go of what it inherited
            time.sleep(30)
            os._exit(0)
        os.read(parent, 1)
    print("held", flush=True)
    time.sleep(30)
"""


def holder(folder: Path, how: str = "alone") -> subprocess.Popen[str]:
    command = [sys.executable, "-c", HOLD, str(folder), how]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stdout is not None and process.stdout.readline() == "held\n"
    return process


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


def test_a_second_writer_is_refused_at_once_and_told_who_holds_the_lock(tmp_path: Path) -> None:
    out = tmp_path / "out"
    process = holder(out)
    try:
        started = time.monotonic()
        words = (
            rf"out is being written by process {process.pid} on {re.escape(socket.gethostname())} "
            r"since 20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00: wait until it ends, or stop it"
        )
        with pytest.raises(InputError, match=words), files.writing(out):
            pass
        assert time.monotonic() - started < 5
    finally:
        end(process)


@pytest.mark.parametrize("how", ["alone", "fork"])
def test_the_lock_of_a_killed_writer_is_free(tmp_path: Path, how: str) -> None:
    out = tmp_path / "out"
    process = holder(out, how)
    end(process)
    try:
        assert files.lock_path(out).exists()
        with files.writing(out):
            pass
        assert not files.lock_path(out).exists()
    finally:
        if how == "fork":
            os.killpg(process.pid, signal.SIGKILL)


def test_waiting_for_the_other_writer(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    out, order = tmp_path / "out", []

    def second() -> None:
        with files.writing(out, wait=True):
            order.append("second")

    waiting = threading.Thread(target=second)
    with caplog.at_level(logging.WARNING), files.writing(out):
        waiting.start()
        while "waiting for it" not in caplog.text:
            time.sleep(0.01)
        order.append("first")
    waiting.join(timeout=10)
    assert order == ["first", "second"]
    assert list(tmp_path.iterdir()) == []


def test_a_holder_that_cannot_be_read_is_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be about to write its name: it is waited for."""
    monkeypatch.setattr(files, "PATIENCE", 0.1)
    out = tmp_path / "out"
    with files.writing(out):
        files.lock_path(out).write_text("")
        with pytest.raises(InputError, match="written by another process"), files.writing(out):
            pass


def test_a_writer_that_yields_is_waited_for_and_learns_of_it(tmp_path: Path) -> None:
    out, order = tmp_path / "out", []

    def second() -> None:
        with files.writing(out):
            order.append("second")

    waiting = threading.Thread(target=second)
    with files.writing(out, yields=True):
        assert not files.is_awaited(out)
        waiting.start()
        while not files.is_awaited(out):
            time.sleep(0.01)
        order.append("first")
    waiting.join(timeout=10)
    assert order == ["first", "second"]
    assert not files.is_awaited(out)


def test_the_working_folder_can_be_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with files.writing(Path()):
        assert [path.name for path in tmp_path.glob(".*")] == [".here.lock"]
