"""`sparta add`."""

from __future__ import annotations

import shutil
from pathlib import Path

from typer.testing import CliRunner

from indexer.search.open import open_index
from sparta.command_line import cli
from sparta.errors import InputError
from sparta.features.store import FeatureStore
from tests.bad_paths import add_bad_paths


def run(*arguments: str | Path) -> str:
    done = CliRunner().invoke(cli, [str(argument) for argument in arguments])
    if done.exception:
        raise done.exception
    return done.output.replace("\n", " ")


def contents(folder: Path) -> dict[Path, tuple[int, bytes]]:
    """Every file's time of modification and content."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in files}


def test_photos_are_added_and_replaced(model_dir: Path, tmp_path: Path, photos: Path) -> None:
    index = tmp_path / "index"
    device = ("--model", model_dir, "--device", "cpu")
    run("index", photos, "--out", index, *device)
    (photos / "new").mkdir()
    shutil.copy(photos / "0.png", photos / "new" / "again.png")
    (photos / "new" / "empty.jpg").touch()
    about = tmp_path / "about.jsonl"
    about.write_text('{"image": "new/again.png", "taken": "2024"}\n')
    files = contents(photos)
    output = run("add", index, photos / "new", photos / "1.png", "--metadata", about, *device)
    assert "skipped new/empty.jpg: the file is empty" in output
    assert f"{index}: 1 images added, 1 replaced, 1 skipped; 4 in all" in output
    assert contents(photos) == files
    searcher = open_index(index)
    size = (photos / "0.png").stat().st_size
    right = {"width": 30, "height": 20, "bytes": size, "taken": "2024"}
    assert searcher.metadata("new/again.png") == right
    assert len(searcher) == 4
    run("add", index, photos / "1.png", "--no-photo-metadata", *device)
    assert open_index(index).metadata("1.png") == {"width": 30, "height": 20}


def test_feature_stores_are_added(
    sparse_index: Path, store: FeatureStore, model_dir: Path, tmp_path: Path
) -> None:
    index = shutil.copytree(sparse_index, tmp_path / "index")
    given = ("--features", store.folder, "--model", model_dir, "--device", "cpu")
    assert f"{index}: 0 images added, 21 replaced; 21 in all" in run("add", index, *given)
    for wrong in ((), (store.folder, *given)):
        done = CliRunner().invoke(cli, ["add", str(index), *map(str, wrong)])
        assert isinstance(done.exception, InputError)
        assert str(done.exception) == "give photos, or feature stores as --features, and not both"


def test_bad_paths_end_no_command(model_dir: Path, tmp_path: Path, photos: Path) -> None:
    index, device = tmp_path / "index", ("--model", model_dir, "--device", "cpu")
    reasons = add_bad_paths(photos)
    skipped = f"{len(reasons)} photos could not be used: see"
    assert skipped in run("index", photos, "--out", index, *device)
    extracted = run("extract", photos, "--backbone", "pixels", "--out", tmp_path / "features")
    assert skipped in extracted
    synced = run("sync", index, photos, *device)
    added = run("add", index, photos, *device)
    for name, reason in reasons.items():
        assert f"skipped {name}: {reason}" in synced
        assert f"skipped {name}: {reason}" in added
    assert f"up to date, {len(reasons)} skipped" in synced
    named = run("add", index, photos / "0.png", photos / "self.jpg", photos / "pipe.jpg", *device)
    assert "0 images added, 1 replaced, 2 skipped; 3 in all" in named
