from __future__ import annotations

import logging
import multiprocessing
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from sparta.errors import InputError
from sparta.lock import lock_path, writing

HOLD = """
import os, sys, time
from pathlib import Path
from sparta.lock import writing
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
        with pytest.raises(InputError, match=words), writing(out):
            pass
        assert time.monotonic() - started < 5
    finally:
        end(process)


@pytest.mark.parametrize("how", ["alone", "fork"])
def test_a_killed_writers_lock_is_free_even_while_its_children_live(
    tmp_path: Path, how: str
) -> None:
    out = tmp_path / "out"
    process = holder(out, how)
    end(process)
    try:
        assert lock_path(out).exists()
        with writing(out):
            pass
        assert not lock_path(out).exists()
    finally:
        if how == "fork":
            os.killpg(process.pid, signal.SIGKILL)


def test_waiting_for_the_other_writer(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    out, order = tmp_path / "out", []

    def second() -> None:
        with writing(out, wait=True):
            order.append("second")

    waiting = threading.Thread(target=second)
    with caplog.at_level(logging.WARNING), writing(out):
        waiting.start()
        while "waiting for it" not in caplog.text:
            time.sleep(0.01)
        order.append("first")
    waiting.join(timeout=10)
    assert order == ["first", "second"]
    assert list(tmp_path.iterdir()) == []


def test_a_holder_that_cannot_be_read_is_another_process(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with writing(out):
        lock_path(out).write_text("")
        with pytest.raises(InputError, match="written by another process"), writing(out):
            pass


def test_a_folder_without_a_name_can_be_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with writing(Path()):
        assert [path.name for path in tmp_path.glob(".*")] == [".here.lock"]


def test_a_forked_process_does_not_hold_the_lock(tmp_path: Path) -> None:
    with writing(tmp_path / "out"):
        child = multiprocessing.get_context("fork").Process(target=time.sleep, args=[20])
        child.start()
    with writing(tmp_path / "out"):
        pass
    child.kill()
    child.join()
