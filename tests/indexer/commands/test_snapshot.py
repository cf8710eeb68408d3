"""`sparta snapshot` and `sparta restore`."""

from __future__ import annotations

import shutil
from pathlib import Path

from indexer.search.open import open_index
from tests.indexer.command_line import sparta


def test_there_and_back_without_torch(index: Path, tmp_path: Path) -> None:
    own, snapshot = shutil.copytree(index, tmp_path / "own"), tmp_path / "snapshot"
    done = sparta("snapshot", str(own), str(snapshot))
    assert (done.returncode, done.stdout) == (0, f"{snapshot}: {own}, as it was built\n"), done
    assert sparta("delete", str(own), "a/00007 é.jpg").returncode == 0
    done = sparta("snapshot", str(own), f"{snapshot}2")
    assert done.stdout == f"{snapshot}2: {own}, commit 2\n"
    done = sparta("restore", str(snapshot), str(own))
    assert done.returncode == 1 and "move it aside" in done.stderr, done
    assert len(open_index(own)) == 299
    done = sparta("restore", str(snapshot), str(own), "--yes")
    assert done.returncode == 0, done
    assert done.stdout.startswith(f"{own}: restored from {snapshot}; the former index is {own}.b")
    assert len(open_index(own)) == 300
    done = sparta("restore", str(snapshot), str(tmp_path / "new"))
    assert done.stdout == f"{tmp_path / 'new'}: restored from {snapshot}\n"
