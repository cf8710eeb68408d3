"""`sparta add`, `delete`, `update` and `sync`: what is written, and what is asked before."""

import shutil
from pathlib import Path
from unittest.mock import patch

import pytest
from typer.testing import CliRunner

import indexer.commands.keep as module
import indexer.update.sync
from indexer.engines.open import open_index
from indexer.store.changes import Add
from sparta.command_line import cli
from sparta.features.store import FeatureStore
from tests.bad_paths import add_bad_paths
from tests.indexer.command_line import run, sparta, sparta_here
from tests.indexer.live_index import write
from tests.indexer.store.images import image
from tests.indexer.tiny import draw


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
    assert f"{index}: up to date, 1 skipped" in run("sync", index, photos, *device)
    run("add", index, photos / "1.png", "--no-photo-metadata", *device)
    assert open_index(index).metadata("1.png") == {"width": 30, "height": 20}


def test_the_models_of_the_index_are_used(model_dir: Path, tmp_path: Path, photos: Path) -> None:
    """Wherever the command runs; and once a model has moved, its new place is asked for."""
    index, model = tmp_path / "index", shutil.copytree(model_dir, tmp_path / "model")
    run("index", photos, "--out", index, "--model", model, "--device", "cpu")
    draw(photos / "new.png", 9)
    assert "1 added, 0 encoded again" in run("sync", index, photos, "--device", "cpu")
    assert "0 images added, 1 replaced" in run("add", index, photos / "0.png", "--device", "cpu")
    moved = model.rename(tmp_path / "moved")
    for command in ("add", "sync"):
        refused = sparta(command, str(index), str(photos))
        assert refused.returncode == 1 and f"{model} does not exist" in refused.stderr
        assert "give the model's new place with --model" in refused.stderr
    assert "4 replaced" in run("add", index, photos, "--model", moved, "--device", "cpu")


def test_feature_stores_are_added(
    sparse_index: Path, store: FeatureStore, model_dir: Path, tmp_path: Path
) -> None:
    index = shutil.copytree(sparse_index, tmp_path / "index")
    given = ("--features", store.folder, "--model", model_dir, "--device", "cpu")
    assert f"{index}: 0 images added, 21 replaced; 21 in all" in run("add", index, *given)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("add", "index"), "give photos, or feature stores as --features, and not both"),
        (("add", "index", "photos", "--features", "store"), "or feature stores as --features"),
        (("sync", "index", "photos", "--watch", "--dry-run"), "--watch"),
        (("sync", "index", "photos", "--watch", "--yes"), "--watch"),
        (("delete", "index"), "give ids, or a --filter, and not both"),
        (("delete", "index", "a", "--filter", "path:*"), "give ids, or a --filter"),
    ],
)
def test_options_that_do_not_go_together(arguments: tuple[str, ...], said: str) -> None:
    done = sparta_here(*arguments)
    assert done.returncode == 1 and said in done.stderr, done


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


def test_a_folder_is_synced_and_followed(
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

    monkeypatch.setattr(indexer.update.sync, "watch", interrupted)
    output = run("sync", index, photos, "--watch", "--every", "3", *device)
    assert "skipped bad.jpg: the file is empty" in output
    assert f"{index}: following {photos}; Ctrl+C ends it" in output
    assert f"{index}: ended; the next run continues" in output
    assert contents(photos) == files


def test_patterns_count_until_others_are_given(
    photos: Path, model_dir: Path, tmp_path: Path
) -> None:
    """Those of the build leave out what is new, and delete nothing; given ones may."""
    index, device = tmp_path / "index", ("--device", "cpu")
    for seed, name in enumerate(["raw/a.png", "year/raw/b.png", "year/c.png", ".h/d.png"], 5):
        draw(photos / name, seed)
    chosen = ("--exclude", "raw", "--include", ".h")
    run("index", photos, "--out", index, "--model", model_dir, *chosen, *device)

    def folders() -> set[str]:
        return {one.rpartition("/")[0] for one in open_index(index).ids()}

    said = f"{photos}: --include .h --exclude raw as the last time; patterns that you give"
    for folder in (photos, photos / "year"):
        output = run("sync", index, folder, *device)
        assert said in output and "up to date" in output
    assert said in run("add", index, photos / "year", *device)
    assert folders() == {"", "year", ".h"}
    assert "1 images added" in run("add", index, photos / "raw", *device)
    draw(photos / "year/raw/e.png", 10)
    assert "up to date" in run("sync", index, photos, "--yes", *device)
    assert folders() == {"", "year", ".h", "raw"}
    (photos / "raw/a.png").rename(tmp_path / "a.png")
    assert "1 deleted" in run("sync", index, photos, *device)
    (tmp_path / "a.png").rename(photos / "raw/a.png")
    output = run("sync", index, photos, "--exclude", "year/*", "--yes", *device)
    assert "1 added, 0 encoded again, 0 moved, 2 deleted" in output and "last time" not in output
    assert "2 of the deleted are left out by name or pattern" in output
    assert folders() == {"", "raw"}
    assert "--exclude 'year/*' as the last time" in run("sync", index, photos, *device)
    assert "3 added" in run("sync", index, photos, "--exclude", "", *device)
    assert "last time" not in run("sync", index, photos, *device)


def test_a_rebuild_is_advised(photos: Path, model_dir: Path, tmp_path: Path) -> None:
    """Where the photos differ from those of the build, by `sync` as by `info`."""
    index, device = tmp_path / "index", ("--device", "cpu")
    run("index", photos, "--out", index, "--model", model_dir, *device)
    advice = "a rebuild is worth it"
    for name in ("0.png", "1.png"):
        (photos / name).unlink()
    with patch("indexer.maintenance.info.REBUILD", 2):
        draw(photos / "new.png", 4)
        assert advice not in run("sync", index, photos, "--yes", *device)
    draw(photos / "new.png", 5)
    with patch("indexer.maintenance.info.REBUILD", 1e-9):
        assert advice in run("sync", index, photos, *device)
        assert advice in run("info", index)
        assert advice not in run("sync", index, photos, *device)  # it is up to date


def test_images_are_deleted_without_torch(copy: Path) -> None:
    done = sparta("delete", str(copy), "a/00007 é.jpg", "a/00008 é.jpg")
    assert (done.returncode, done.stdout) == (0, f"{copy}: 2 images deleted; 298 in all\n"), done
    assert len(open_index(copy)) == 298
    done = sparta_here("delete", str(copy), "a/00007 é.jpg")
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: {copy} has no image 'a/00007 é.jpg': give ids")
    done = sparta_here("delete", str(copy), "a/00009 é.jpg")
    assert done.stdout == f"{copy}: 1 image deleted; 297 in all\n"


def test_what_a_filter_lets_through_is_deleted(copy: Path) -> None:
    few = 'path:="a/00007 é.jpg"|="a/00008 é.jpg"'
    done = sparta_here("delete", str(copy), "--filter", few)
    assert (done.returncode, done.stdout) == (0, f"{copy}: 2 images deleted; 298 in all\n"), done
    done = sparta_here("delete", str(copy), "--filter", few)
    assert done.stdout == f"{copy}: the filter lets none of 298 images through\n"
    done = sparta_here("delete", str(copy), "--filter", "path:*")
    assert done.returncode == 1
    assert f"{copy}: delete 298 of 298 images?" in done.stderr
    assert "error: nothing was changed; --yes does it without asking" in done.stderr
    done = sparta_here("delete", str(copy), "--filter", "-path:*00011*", "--yes")
    assert done.returncode == 1
    assert "error: --filter, column" in done.stderr
    all_of_them = ["delete", str(copy), "--filter", "path:*"]
    assert CliRunner().invoke(cli, all_of_them, input="n\n").exit_code == 1
    assert len(open_index(copy)) == 298
    asked = CliRunner().invoke(cli, all_of_them, input="y\n")
    assert f"{copy}: 298 images deleted; 0 in all" in asked.output.replace("\n", " ")
    write(copy, Add(image("new", {3: 1})))
    done = sparta_here(*all_of_them, "--yes")
    assert done.stdout == f"{copy}: 1 image deleted; 0 in all\n"


def test_metadata_is_changed_without_torch(copy: Path, tmp_path: Path) -> None:
    about = tmp_path / "about.csv"
    about.write_text("image,album\na/00007 é.jpg,sea\nb.jpg,sea\n")
    done = sparta("update", str(copy), str(about))
    assert done.returncode == 0, done
    assert done.stdout == (
        f"{copy}: metadata of 1 images changed, 0 as before; 1 not in the index: b.jpg\n"
    )
    assert open_index(copy).metadata("a/00007 é.jpg")["album"] == "sea"
    done = sparta_here("update", str(copy), str(about.with_name("missing.csv")))
    assert (done.returncode, done.stdout) == (1, "")
