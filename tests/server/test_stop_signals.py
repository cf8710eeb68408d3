"""Signals that stop a server are not lost, whatever it does when they come."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator

import pytest

from server.stop_signals import STOPS, held_back, stop_signals, take

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="workers are forks on Linux alone")


class StoppedWhileItIsRemoved:
    """Python ignores an exception here."""

    def __del__(self) -> None:
        os.kill(os.getpid(), signal.SIGTERM)


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    former = [(number, signal.getsignal(number)) for number in STOPS]
    yield
    for number, handler in former:
        signal.signal(number, handler)


def test_a_signal_can_be_waited_for() -> None:
    with stop_signals() as stop:
        assert not stop.poll()
        StoppedWhileItIsRemoved()
        assert stop.poll(5)
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)


def test_a_process_that_was_just_forked_ends() -> None:
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
