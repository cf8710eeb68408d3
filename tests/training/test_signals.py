"""Handlers that were set behind Python's back."""

import ctypes
import signal
import sys
from collections.abc import Iterator

import pytest

from training.signals import SIZE, keep_java_handlers

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no sigaction")


def action_of(number: int) -> "ctypes.Array[ctypes.c_char]":
    action = ctypes.create_string_buffer(SIZE)
    assert ctypes.CDLL(None).sigaction(number, None, action) == 0
    return action


def handler_of(number: int) -> bytes:
    """The address that a struct sigaction begins with."""
    return action_of(number).raw[: ctypes.sizeof(ctypes.c_void_p)]


@pytest.fixture
def set_by_c() -> Iterator[bytes]:
    """A handler of SIGFPE that Python does not know of; the old one returns afterwards."""
    before = action_of(signal.SIGFPE)
    ctypes.CDLL(None).signal(signal.SIGFPE, ctypes.CDLL(None).abs)
    assert signal.getsignal(signal.SIGFPE) is signal.SIG_DFL
    yield handler_of(signal.SIGFPE)
    ctypes.CDLL(None).sigaction(signal.SIGFPE, before, None)


def set_as_lightning_does() -> None:
    signal.signal(signal.SIGFPE, signal.getsignal(signal.SIGFPE))


def test_they_are_put_back(set_by_c: bytes) -> None:
    with pytest.raises(KeyError), keep_java_handlers():
        set_as_lightning_does()
        assert handler_of(signal.SIGFPE) != set_by_c
        raise KeyError
    assert handler_of(signal.SIGFPE) == set_by_c
