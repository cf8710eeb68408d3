"""Signals that stop a server are not lost, whatever it does when they come."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="workers are forks on Linux alone")

# In processes of their own: others have threads that might take the signals.
IGNORED = """
import os, signal
from server.stop_signals import stop_signals

class StoppedWhileItIsRemoved:
    # Python ignores an exception here.
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)

with stop_signals() as stop:
    assert not stop.poll()
    StoppedWhileItIsRemoved()
    assert stop.poll(5)
try:
    os.kill(os.getpid(), signal.SIGINT)
    raise AssertionError
except KeyboardInterrupt:
    print("stopped")
"""

FORKED = """
import os, signal, time
from server.stop_signals import held_back, stop_signals, take

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
print("stopped")
"""


@pytest.mark.parametrize("script", [IGNORED, FORKED], ids=["exception is ignored", "just forked"])
def test_a_signal_is_not_lost(script: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stdout) == (0, "stopped\n"), done.stderr
