"""`sparta merge`."""

from __future__ import annotations

import shutil
from pathlib import Path

from indexer.search.open import open_index
from tests.indexer.command_line import sparta, sparta_here


def test_two_halves(index: Path, tmp_path: Path) -> None:
    first, second = (shutil.copytree(index, tmp_path / name) for name in ("first", "second"))
    ids = [f"a/{number:05d} é.jpg" for number in range(300)]
    assert sparta("delete", str(first), *ids[:100]).returncode == 0
    assert sparta_here("delete", str(second), *ids[100:]).returncode == 0
    out = tmp_path / "all"
    done = sparta_here("merge", str(first), str(second), "--out", str(out))
    assert (done.returncode, done.stdout) == (0, f"{out}: 300 images of 2 indexes\n"), done
    assert open_index(out).search("dog", 300).hits == open_index(index).search("dog", 300).hits
