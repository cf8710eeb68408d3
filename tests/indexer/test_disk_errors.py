"""Every command that writes, with an error of the disk at each call: what it says is so."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from indexer.build import build_index
from indexer.dense.manifest import dense_names
from indexer.encoding.features import open_images
from indexer.engines.open import open_index
from indexer.maintenance.combine import split_index
from indexer.manifest import index_folders
from indexer.store.changes import Delete
from indexer.store.commit import read_commit
from indexer.update.writer import open_writer
from indexer.verify import verify_index
from server.security.keys import new_key, read_keys, write_keys
from tests.disk_errors import failing
from tests.indexer.command_line import sparta_here
from tests.indexer.live_index import answer
from tests.indexer.random_postings import random_postings, shards_of, write_postings
from tests.indexer.tiny import draw
from tests.indexer.vocabulary import TOKENIZER
from tests.needs import EVERY

ERRORS = [(errno.EIO, False), (errno.ENOSPC, True)]
SOME = 2  # calls of a command
MAYBE = "may have been made"
ID = "a/00003 é.jpg"
WHOLE, SHARDED = "whole", "sharded"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, model_dir: Path, dense_model: Path) -> Path:
    """An index with a log of changes, the same in shards, one to merge with, one of photos."""
    folder = tmp_path_factory.mktemp("made")
    [first, second] = shards_of(random_postings(TOKENIZER, 40), 24)
    write_postings(folder / WHOLE, [first], TOKENIZER, lucene=False)
    write_postings(folder / "other", [second], TOKENIZER, lucene=False)
    split_index(folder / WHOLE, folder / SHARDED, 2)
    for one in (WHOLE, SHARDED):
        with open_writer(folder / one) as writer:
            writer.write([Delete("a/00001 é.jpg"), Delete("a/00002 é.jpg")])
    (folder / "new.jsonl").write_text(
        "".join(f'{{"image": "a/{n:05} é.jpg", "n": {n}}}\n' for n in range(3, 12))
    )
    shutil.copytree(model_dir, folder / "model")
    shutil.copytree(dense_model, folder / "dense")
    for number in range(4):
        draw(folder / "photos" / f"{number}.png", number, width=20 + number)
        draw(folder / "more" / f"{number}.png", 9 + number)
    for number, shards in enumerate((None, 2)):
        out = folder / ("built", "built shards")[number]
        images = open_images([folder / "photos"], [folder / "model"], out, device="cpu")
        build_index(images, [folder / "model"], out, device="cpu", shards=shards)
    shutil.copytree(folder / "photos", folder / "former")
    (folder / "photos" / "0.png").unlink()
    draw(folder / "photos" / "1.png", 7, width=30)
    draw(folder / "photos" / "4.png", 8)
    (folder / "keys").mkdir()
    write_keys(folder / "keys" / "keys.json", [new_key("first", "search")[0]])
    return folder


def seen(index: Path) -> Any:
    """What a fresh process finds; None where nothing is."""
    if not os.path.lexists(index):
        return None
    searcher = open_index(index)
    hits = {query: answer(searcher.search(query, 50)) for query in ("dog", "the", "red sky")}
    ids = searcher.ids()
    metadata = {one: searcher.metadata(one) for one in ids}
    searcher.close()
    return json.dumps([ids, hits, metadata, [dense_names(one) for one in index_folders(index)]])


def later(index: Path) -> Any:
    """What is found after the next writer, and what is on the disk is sound."""
    if os.path.lexists(index):
        with open_writer(index):
            pass
        assert verify_index(index) == []
    return seen(index)


def content(folder: Path) -> Any:
    """The files of a folder, those that a killed process leaves aside; None where it is not."""
    if not folder.exists():
        return None
    return {
        str(one.relative_to(folder)): one.read_bytes() for one in folder.rglob("*") if one.is_file()
    }


def site(folder: Path) -> Any:
    """The files of a published site, None while it says that it is not whole."""
    return None if (folder / ".publishing").exists() else content(folder)


def keys(file: Path) -> Any:
    """The names of the keys in a file."""
    return [one.name for one in read_keys(file)]


def is_mixed(found: str, before: str, after: str) -> bool:
    """Whether each image is as before a change or as after it, none lost and none made up."""
    metadata = [json.loads(one)[2] for one in (found, before, after)]
    return all(
        own.get(one) in (former.get(one), new.get(one))
        for own, former, new in [metadata]
        for one in {*own, *former, *new}
    )


Look = Callable[[Path], Any]


@dataclass
class Command:
    """Its arguments, what it writes, and how one sees what is there: at once and later."""

    arguments: list[str]
    target: str = "INDEX"
    looks: tuple[Look, Look] = (seen, later)
    kinds: dict[str, str] = field(default_factory=lambda: {WHOLE: WHOLE})


BOTH = {WHOLE: WHOLE, SHARDED: SHARDED}
OF_PHOTOS = {WHOLE: "built", SHARDED: "built shards"}
FILES = (content, content)
CPU = ["--device", "cpu"]
DELETE = ["delete", "INDEX", ID, "a/00004 é.jpg", "a/00005 é.jpg"]
COMMANDS = {
    "delete": Command(DELETE, kinds=BOTH),
    "update": Command(["update", "INDEX", "new.jsonl"], kinds=BOTH),
    "merge": Command(["merge", "INDEX"], kinds=BOTH),
    "snapshot": Command(["snapshot", "INDEX", "copy"], "copy", kinds=BOTH),
    "merge several": Command(["merge", "INDEX", "other", "--out", "copy"], "copy"),
    "merge into shards": Command(["merge", "INDEX", "--shards", "3"], kinds=BOTH),
    "restore": Command(["restore", "other", "INDEX", "--yes"], kinds=BOTH),
    "link": Command(["restore", "INDEX", "copy", "--link"], "copy", kinds=BOTH),
    "index": Command(["index", "photos", "--out", "copy", "--model", "model", *CPU], "copy"),
    "rebuild": Command(
        ["index", "photos", "--out", "INDEX", "--model", "model", *CPU], kinds=OF_PHOTOS
    ),
    "add": Command(["add", "INDEX", "more", *CPU], kinds=OF_PHOTOS),
    "add --dense": Command(
        ["add", "INDEX", "former", "--dense", "dense", *CPU], kinds={WHOLE: "built"}
    ),
    "sync": Command(["sync", "INDEX", "photos", *CPU], kinds=OF_PHOTOS),
    "publish": Command(["publish", "INDEX", "--out", "site"], "site", (site, site)),
    "npz": Command(["export", "npz", "INDEX", "out"], "out", FILES),
    "anserini": Command(["export", "anserini", "INDEX", "out"], "out", FILES),
    "opensearch": Command(["export", "opensearch", "INDEX", "out"], "out", FILES),
    "keys": Command(
        ["keys", "create", "second", "--keys", "keys/keys.json"], "keys/keys.json", (keys, keys)
    ),
}
CASES = [(name, kind) for name, command in COMMANDS.items() for kind in command.kinds]


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_what_a_command_says_is_so(
    name: str, kind: str, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indexer.maintenance.combine.write_lucene", lambda *_, **__: None)
    command = COMMANDS[name]
    index, (seen, later) = command.kinds[kind], command.looks
    arguments = [index if one == "INDEX" else one for one in command.arguments]
    target = index if command.target == "INDEX" else command.target

    def run(number: int, fail_at: int, how: tuple[int, bool]) -> tuple[Path, Any, list[str]]:
        folder = Path(shutil.copytree(made, tmp_path / f"{number}-{fail_at}"))
        monkeypatch.chdir(folder)
        with failing(folder, fail_at, *how) as disk:
            done = sparta_here(*arguments)
        return folder, done, disk.calls

    folder, done, calls = run(0, -1, (0, False))
    assert done.returncode == 0, done.stderr
    before, after = seen(made / target), later(folder / target)
    assert len(calls) > 3, calls
    if name == "merge":
        assert before == after
    step = 1 if EVERY else max(1, len(calls) // SOME)
    for number, how in enumerate(ERRORS):
        for fail_at in range(number % step, len(calls), step):
            folder, done, made_calls = run(1 + number, fail_at, how)
            said = f"{made_calls[fail_at : fail_at + 1]} {how}: {done.stdout} {done.stderr}"
            assert "Traceback" not in done.stderr, said
            found = seen(folder / target), later(folder / target)
            if done.returncode == 0:
                assert found == (after, after), said
                for one in index_folders(folder / target) if name == "merge" else ():
                    assert len(read_commit(one).segments.entries) == 1, said
            else:
                assert done.stderr.strip().splitlines()[-1].startswith("error: "), said
                if MAYBE in done.stderr:
                    # Commits of shards are seen one by one; on a disk that stays so broken that
                    # nothing is taken back, some shards keep the change.
                    apart = (kind == SHARDED, kind == SHARDED and how[1])
                    for one, may_mix in zip(found, apart, strict=True):
                        if one not in (before, after):
                            assert may_mix and is_mixed(one, before, after), said
                else:
                    assert found == (before, before), said
            shutil.rmtree(folder)
