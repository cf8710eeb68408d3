"""Commands that take a divided index."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from indexer.build import build_index, check_target
from indexer.commands.delete import delete
from indexer.commands.info import info
from indexer.commands.search import search
from indexer.commands.similar import similar
from indexer.commands.update import update
from indexer.commands.verify import verify
from indexer.manifest import Manifest
from indexer.search.open import open_backend
from indexer.split import split_index
from sparta.errors import InputError
from sparta.features.store import FeatureStore


@pytest.fixture(scope="module")
def divided(tmp_path_factory: pytest.TempPathFactory, index: Path) -> Path:
    out = tmp_path_factory.mktemp("divided") / "index"
    split_index(index, out, 3)
    return out


def test_search_and_similar(index: Path, divided: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answers = []
    for folder in (index, divided):
        search(folder, "dogs -cat qqq", as_json=True, filter_text="width:>10")
        search(folder, "dog", explain=True, sort="-width")
        similar(folder, ["a/00001 é.jpg"], filter_text="width:>10")
        answers.append([line for line in capsys.readouterr().out.splitlines() if "_ms" not in line])
    assert answers[0] == answers[1]
    with pytest.raises(InputError, match=r"is divided into 3 shards, which this"):
        open_backend(divided, "vse")


def test_update_and_delete(
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


def test_verify_and_info(divided: Path, capsys: pytest.CaptureFixture[str]) -> None:
    verify(divided)
    assert "no damage" in capsys.readouterr().out
    info(divided, as_json=True)
    shards = json.loads(capsys.readouterr().out)["shards"]
    assert sum(shard["images"] for shard in shards) == 300
    info(divided)
    assert "300 in 3 shards" in capsys.readouterr().out


def test_an_index_is_built_in_shards(
    tmp_path: Path, store: FeatureStore, model_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    build_index([store], [model_dir], tmp_path / "whole", device="cpu")
    built = build_index([store], [model_dir], tmp_path / "index", device="cpu", shards=2)
    assert built.images == Manifest.open(tmp_path / "whole").images
    assert not list(tmp_path.glob(".index*"))
    check_target(tmp_path / "index")
    searchers = [open_backend(tmp_path / name) for name in ("whole", "index")]
    hits = [searcher.search("dog cat red", 100).hits for searcher in searchers]
    assert hits[0] == hits[1] != []
