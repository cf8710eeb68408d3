"""`sparta info`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np

from indexer.drift import MEANS
from indexer.manifest import Manifest
from tests.indexer.command_line import sparta


def forget(index: Path, name: str) -> None:
    """Let an index be as if it had never had a file."""
    (index / name).unlink()
    manifest = Manifest.read(index)
    parts = {key: part for key, part in manifest.parts.items() if key != name}
    Manifest(**{**vars(manifest), "parts": parts}).save(index)


def test_what_is_shown(index: Path, tmp_path: Path) -> None:
    live = shutil.copytree(index, tmp_path / "live")
    done = sparta("info", str(live))
    assert done.returncode == 0 and done.stderr == "", done
    assert "300, " in done.stdout and "never since" in done.stdout
    deleted = [f"a/{number:05d} é.jpg" for number in range(30)]
    assert sparta("delete", str(live), *deleted).returncode == 0
    done = sparta("info", str(live))
    assert "a rebuild is worth it from 0.5 on" in done.stdout
    assert "10.0 % of their images deleted" in done.stdout
    found = json.loads(sparta("info", str(live), "--json").stdout)
    assert found["images"] == 270 and 0 < found["live"]["drift"] < 0.2
    forget(live, MEANS)
    done = sparta("info", str(live))
    assert "unknown: the index was built by an earlier version" in done.stdout


def test_when_a_rebuild_is_worth_it(index: Path, tmp_path: Path) -> None:
    live = shutil.copytree(index, tmp_path / "live")
    assert sparta("delete", str(live), "a/00007 é.jpg").returncode == 0
    means = np.load(live / MEANS)
    forget(live, MEANS)
    np.save(live / MEANS, means[::-1])
    assert "; a rebuild is worth it" in sparta("info", str(live)).stdout
