"""`sparta sync`."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

import indexer.commands.sync as module
import indexer.update.sync.watch
from sparta.command_line import cli
from sparta.errors import InputError
from tests.indexer.commands.test_add import contents, run
from tests.indexer.update.sync.conftest import draw


def test_a_folder_is_followed(
    photos: Path, model_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = tmp_path / "index"
    device = ("--model", model_dir, "--device", "cpu")
    run("index", photos, "--out", index, *device)
    assert f"{index}: up to date; 3 photos in the folder" in run("sync", index, photos, *device)
    draw(photos / "new" / "a.png", 5)
    (photos / "bad.jpg").touch()
    (photos / "0.png").rename(photos / "zero.png")
    files = contents(photos)
    wanted = "2 to add, 0 to encode again, 1 to move, 0 to delete; 5 photos in the folder"
    assert wanted in run("sync", index, photos, "--dry-run", *device)
    monkeypatch.setattr(module, "MOST", 0)
    output = run("sync", index, photos, *device)
    assert "skipped 1 more" in output
    assert "1 added, 0 encoded again, 1 moved, 0 deleted, 1 skipped; 5 photos" in output
    monkeypatch.setattr(module, "MOST", 1)

    def interrupted(job: object, every: float, done: object, notice: object) -> None:
        assert every == 3
        raise KeyboardInterrupt

    monkeypatch.setattr(indexer.update.sync.watch, "watch", interrupted)
    output = run("sync", index, photos, "--watch", "--every", "3", *device)
    assert "skipped bad.jpg: the file is empty" in output
    assert f"{index}: following {photos}; Ctrl+C ends it" in output
    assert f"{index}: ended; the next run continues" in output
    assert contents(photos) == files


def test_watching_is_neither_dry_nor_without_questions(tmp_path: Path) -> None:
    for option in ("--dry-run", "--yes"):
        done = CliRunner().invoke(cli, ["sync", str(tmp_path), str(tmp_path), "--watch", option])
        assert isinstance(done.exception, InputError)
