"""`sparta info`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np

from indexer.drift import MEANS
from indexer.live.changes import Add
from indexer.manifest import Manifest
from indexer.update.writer import open_writer
from tests.indexer.columns.live.images import image
from tests.indexer.command_line import sparta, sparta_here
from tests.indexer.dense_parts import random_vectors, write_part


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
    write_part(live, "one", random_vectors(300, 1))
    deleted = [f"a/{number:05d} é.jpg" for number in range(30)]
    assert sparta_here("delete", str(live), *deleted).returncode == 0
    done = sparta_here("info", str(live))
    assert "a rebuild is worth it from 0.5 on" in done.stdout
    assert "10.0 % of their images deleted" in done.stdout
    assert "one of 270 images  " in done.stdout
    with open_writer(live) as writer:
        writer.write([Add(image("new", {3: 1}))])
    assert "one of 270 images (1 without)" in sparta_here("info", str(live)).stdout
    found = json.loads(sparta_here("info", str(live), "--json").stdout)
    assert found["images"] == 271 and found["vectors"] == {"one": 270}
    assert 0 < found["live"]["drift"] < 0.2
    forget(live, MEANS)
    done = sparta_here("info", str(live))
    assert "unknown: the index was built by an earlier version" in done.stdout


def test_when_a_rebuild_is_worth_it(index: Path, tmp_path: Path) -> None:
    live = shutil.copytree(index, tmp_path / "live")
    assert sparta_here("delete", str(live), "a/00007 é.jpg").returncode == 0
    means = np.load(live / MEANS)
    forget(live, MEANS)
    np.save(live / MEANS, means[::-1])
    assert "; a rebuild is worth it" in sparta_here("info", str(live)).stdout
