"""`sparta info`, `verify`, `merge`, `snapshot`, `restore`, and commands for a divided index."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from indexer.commands.keep import delete, update
from indexer.commands.maintain import info, verify
from indexer.commands.search import search
from indexer.dense.build import add_dense
from indexer.encoding.impacts import MEANS
from indexer.engines.open import open_backend, open_index
from indexer.maintenance.combine import split_index
from indexer.manifest import Manifest
from indexer.store.changes import Add
from indexer.store.commit import read_commit
from indexer.verify import verify_index
from sparta.errors import InputError
from sparta.features.store import FeatureStore
from tests.damage import damage
from tests.indexer.command_line import sparta, sparta_here
from tests.indexer.live_index import write
from tests.indexer.store.images import image
from tests.indexer.tiny_dense import random_vectors, write_part


def forget(index: Path, name: str) -> None:
    """Let an index be as if it had never had a file."""
    (index / name).unlink()
    manifest = Manifest.read(index)
    parts = {key: part for key, part in manifest.parts.items() if key != name}
    Manifest(**{**vars(manifest), "parts": parts}).save(index)


def test_info_shows_what_is_in_an_index(copy: Path) -> None:
    done = sparta("info", str(copy))
    assert done.returncode == 0 and done.stderr == "", done
    assert "300, " in done.stdout and "never since" in done.stdout
    write_part(copy, "one", random_vectors(300, 1))
    deleted = [f"a/{number:05d} é.jpg" for number in range(30)]
    assert sparta_here("delete", str(copy), *deleted).returncode == 0
    done = sparta_here("info", str(copy))
    assert "a rebuild is worth it from 0.5 on" in done.stdout
    assert "10.0 % of their images deleted" in done.stdout
    assert "one of 270 images  " in done.stdout
    write(copy, Add(image("new", {3: 1})))
    assert "one of 270 images (1 without)" in sparta_here("info", str(copy)).stdout
    found = json.loads(sparta_here("info", str(copy), "--json").stdout)
    assert found["images"] == 271 and found["vectors"] == {"one": 270}
    assert 0 < found["live"]["drift"] < 0.2
    forget(copy, MEANS)
    done = sparta_here("info", str(copy))
    assert "unknown: the index was built by an earlier version" in done.stdout


def test_two_halves_are_merged(index: Path, tmp_path: Path) -> None:
    first, second = (shutil.copytree(index, tmp_path / name) for name in ("first", "second"))
    ids = [f"a/{number:05d} é.jpg" for number in range(300)]
    assert sparta("delete", str(first), *ids[:100]).returncode == 0
    assert sparta_here("delete", str(second), *ids[100:]).returncode == 0
    out = tmp_path / "all"
    done = sparta_here("merge", str(first), str(second), "--out", str(out))
    assert (done.returncode, done.stdout) == (0, f"{out}: 300 images of 2 indexes\n"), done
    assert open_index(out).search("dog", 300).hits == open_index(index).search("dog", 300).hits


def test_a_snapshot_is_taken_and_restored_without_torch(index: Path, tmp_path: Path) -> None:
    own, snapshot = shutil.copytree(index, tmp_path / "own"), tmp_path / "snapshot"
    done = sparta("snapshot", str(own), str(snapshot))
    assert (done.returncode, done.stdout) == (0, f"{snapshot}: {own}, as it was built\n"), done
    assert sparta("delete", str(own), "a/00007 é.jpg").returncode == 0
    done = sparta("snapshot", str(own), f"{snapshot}2")
    assert done.stdout == f"{snapshot}2: {own}, commit 1\n"
    done = sparta("restore", str(snapshot), str(own))
    assert done.returncode == 1 and "move it aside" in done.stderr, done
    assert len(open_index(own)) == 299
    done = sparta("restore", str(snapshot), str(own), "--yes")
    assert done.returncode == 0, done
    assert done.stdout.startswith(f"{own}: restored from {snapshot}; the former index is {own}.b")
    [aside] = tmp_path.glob("own.before-20*")
    assert sparta_here("delete", str(own), "a/00008 é.jpg").returncode == 0
    assert [len(open_index(one)) for one in (own, aside, snapshot)] == [299, 299, 300]
    done = sparta("restore", str(snapshot), str(tmp_path / "new"))
    assert done.stdout == f"{tmp_path / 'new'}: restored from {snapshot}\n"


def test_every_damaged_file_gets_a_line(
    sparse_index: Path,
    store: FeatureStore,
    dense_model: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    copy = Path(shutil.copytree(sparse_index, tmp_path / "index"))
    add_dense(copy, store, "vse", dense_model, device="cpu")
    for folder in (copy, store.folder, store.folder.parent):
        verify(folder)
        assert capsys.readouterr().out == f"{folder}: no damage\n"
    steps: list[tuple[str, int, int]] = []
    assert verify_index(copy, lambda *step: steps.append(step)) == []
    assert {stage for stage, _, _ in steps} == {"hash"} and steps[-1][1] == steps[-1][2]
    damaged = [
        copy / "segments" / "000001" / "levels.npy",
        copy / "dense" / "vse" / "vectors.faiss",
    ]
    for path in damaged:
        assert damage(path, "bit", Random(0))
    (copy / "term_offsets.npy").unlink()
    with pytest.raises(InputError, match="index: 3 problems"):
        verify(copy)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [
        str(path) for path in (copy / "term_offsets.npy", *damaged)
    ]
    for path in damaged:
        (path.parent / "manifest.json").write_text("{")
    assert len(verify_index(copy)) == 3


def test_what_does_not_fit_is_named(copy: Path) -> None:
    with pytest.raises(InputError, match=r"neither an index .* nor a feature store"):
        verify(copy.parent)
    replace(read_commit(copy), images=7).save(copy)
    [problem] = verify_index(copy)
    assert "has 300 images, its commit names 7" in problem


@pytest.fixture(scope="module")
def divided(tmp_path_factory: pytest.TempPathFactory, index: Path) -> Path:
    out = tmp_path_factory.mktemp("divided") / "index"
    split_index(index, out, 3)
    return out


def test_update_and_delete_take_a_divided_index(
    divided: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    index, about = tmp_path / "index", tmp_path / "about.jsonl"
    shutil.copytree(divided, index)
    lines = [{"image": f"a/{number:05} é.jpg", "album": "Crete"} for number in range(5)]
    about.write_text("\n".join(map(json.dumps, lines)))
    update(index, about)
    assert "metadata of 5 images changed" in capsys.readouterr().out
    delete(index, filter_text="album:Crete")
    delete(index, ["a/00007 é.jpg"])
    assert "5 images deleted; 295 in all" in (said := capsys.readouterr().out)
    assert "1 image deleted; 294 in all" in said
    with pytest.raises(InputError, match=r"has no image 'a/00007 é\.jpg'"):
        delete(index, ["a/00007 é.jpg"])


def test_verify_search_and_info_take_a_divided_index(
    index: Path, divided: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    verify(divided)
    assert "no damage" in capsys.readouterr().out
    answers = []
    for folder in (index, divided):
        search(folder, "dogs -cat qqq", explain=True, filter_text="width:>10", sort="-width")
        answers.append(capsys.readouterr().out)
    assert answers[0] == answers[1]
    info(divided, as_json=True)
    shards = json.loads(capsys.readouterr().out)["shards"]
    assert sum(shard["images"] for shard in shards) == 300
    info(divided)
    assert "300 in 3 shards" in capsys.readouterr().out
    with pytest.raises(InputError, match=r"is divided into 3 shards, which this"):
        open_backend(divided, "vse")
