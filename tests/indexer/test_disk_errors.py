"""Every command that writes, with an error of the disk at each call: what it says is so."""

from __future__ import annotations

import errno
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from indexer.engines.open import open_index
from indexer.maintenance.combine import split_index
from indexer.manifest import index_folders
from indexer.store.changes import Delete
from indexer.store.commit import read_commit
from indexer.update.writer import open_writer
from indexer.verify import verify_index
from tests.disk_errors import failing
from tests.indexer.command_line import sparta_here
from tests.indexer.live_index import answer
from tests.indexer.random_postings import random_postings, shards_of, write_postings
from tests.indexer.vocabulary import TOKENIZER

ERRORS = [(errno.EIO, False), (errno.ENOSPC, True)]
EVERY = bool(os.environ.get("EVERY_CALL"))  # as `make torture` does
SOME = 9  # calls of a command
MAYBE = "may have been made"
ID = "a/00003 é.jpg"
WHOLE, SHARDED = "whole", "sharded"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index with changes in its log, the same in shards, and another to merge with."""
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
    return json.dumps([ids, hits, metadata])


def later(index: Path) -> Any:
    """What is found after the next writer, and what is on the disk is sound."""
    if os.path.lexists(index):
        with open_writer(index):
            pass
        assert verify_index(index) == []
    return seen(index)


DELETE = ["delete", "INDEX", ID, "a/00004 é.jpg", "a/00005 é.jpg"]
COMMANDS: dict[str, tuple[list[str], str]] = {
    "delete": (DELETE, "INDEX"),
    "update": (["update", "INDEX", "new.jsonl"], "INDEX"),
    "merge": (["merge", "INDEX"], "INDEX"),
    "snapshot": (["snapshot", "INDEX", "copy"], "copy"),
    "merge several": (["merge", "INDEX", "other", "--out", "copy"], "copy"),
    "link": (["restore", "INDEX", "copy", "--link"], "copy"),
}
CASES = [
    (name, kind)
    for name in COMMANDS
    for kind in (WHOLE, SHARDED)
    if kind == WHOLE or name in ("delete", "update", "merge")
]


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_what_a_command_says_is_so(
    name: str, kind: str, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indexer.maintenance.combine.write_lucene", lambda *_, **__: None)
    arguments, target = COMMANDS[name]
    arguments = [kind if one == "INDEX" else one for one in arguments]
    target = kind if target == "INDEX" else target

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
                    # Commits of shards are seen one by one.
                    assert found[0] in (before, after) or kind == SHARDED, said
                    assert found[1] in (before, after), said
                else:
                    assert found == (before, before), said
            shutil.rmtree(folder)
