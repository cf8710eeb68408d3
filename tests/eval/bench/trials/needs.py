"""What tests of trials need, and how they compile: eight times as fast, without optimising."""

from __future__ import annotations

import shutil

import pytest

from indexer.columns import engine

QUICK = ["-O0", "-g0"]
READY = shutil.which("git") and shutil.which("cc") and "native" in engine.best_documents.__module__
needs_compiler = pytest.mark.skipif(
    not READY, reason="git, a C compiler or the compiled kernel is not there"
)
