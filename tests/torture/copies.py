"""Copies of an index that take one another's place while it is searched and written to.

Random steps on some folders and the name that a server serves; after each, every searcher must find
what a dict has for the folder that the name leads to.
"""

import random
import shutil
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.parse import quote

from fastapi.testclient import TestClient

from indexer.engines.open import open_index
from indexer.filters.syntax import parse_filter
from indexer.maintenance.combine import split_index
from indexer.maintenance.copies import restore_snapshot, set_alias, take_snapshot
from indexer.search.explanations import Explain
from indexer.search.searcher import Searcher
from indexer.store import compaction
from indexer.update import writer
from server.backends import Current, open_backends
from server.watch import IndexWatch
from server.writing.app import Writing, create_app
from server.writing.forward import COMMIT, PLACE, Board
from sparta.errors import InputError
from tests.server.apps import settings
from tests.server.drawings import index_drawings
from tests.server.fake import DRAWINGS, draw
from tests.torture.kills import Report

WORKERS = 2
SHARDS = 2
IDS = [*DRAWINGS, *(f"new/{number}.jpg" for number in range(5))]

Images = dict[str, tuple[int, int | None]]  # id → impact of "red", and a field


def copy_indexes(count: int, seed: int, work: Path, report: Report) -> dict[str, Any]:
    """Take so many steps, half of them with shards; returns which, and what was wrong after one."""
    wrong: list[dict[str, Any]] = []
    taken: Counter[str] = Counter()
    for shards in (1, SHARDS):
        with (
            patch.object(writer, "COMPACT_AT", 12),
            patch.object(compaction, "FAN", 2),
            ExitStack() as opened,
        ):
            steps = Steps(work / f"{shards}", shards, random.Random(seed), opened)
            for number in range(1, count // 2 + 1):
                name, problems = steps.step()
                taken[name] += 1
                at = {"shards": shards, "step": number, "after": name}
                wrong += [{**at, "problem": one} for one in problems]
                if number % 50 == 0:
                    report(f"copies: {number} of {count // 2} steps with shards: {shards}")
    return {"steps": count, "seed": seed, "taken": dict(taken), "wrong": wrong}


class Steps:
    """The folders with their images, a name for one of them, and all that serves the name."""

    def __init__(self, work: Path, shards: int, rng: random.Random, opened: ExitStack) -> None:
        self._work, self._rng, self._name, self._number = work, rng, work / "prod", 0
        self._shards = shards
        (work / "photos").mkdir(parents=True)
        first = index_drawings(work / "whole", draw(work / "photos"))
        if shards > 1:
            split_index(first, work / "divided", shards)
            first = work / "divided"
        red = {key: one.terms.get("red", (0, None))[0] for key, one in DRAWINGS.items()}
        self._images: dict[Path, Images] = {first: {key: (one, None) for key, one in red.items()}}
        set_alias(self._name, first)
        reopen = partial(open_backends, settings(index=self._name))
        self._board = Board(WORKERS)
        self._currents = [Current(reopen()) for _ in range(WORKERS)]
        self._watches = [
            IndexWatch(self._name, reopen, current, lambda _: None, self._board, place)
            for place, current in enumerate(self._currents)
        ]
        for watch in self._watches:
            watch._show(0)
        self._searcher = open_index(self._name)
        self._writer = ExitStack()
        self._client: TestClient | None = None
        self._waited: tuple[int, int] | None = None  # commit and place of a write in this step
        for close in (*(one.close for one in self._currents), self.close):
            opened.callback(close)
        opened.callback(lambda: self._searcher.close())

    def step(self) -> tuple[str, list[str]]:
        """Take a step; returns its name and what was wrong after it."""
        self._number += 1
        steps: list[Callable[[], Any]] = [self.put] * 4 + [self.delete, self.describe] * 2
        steps += [self.alias] * 2
        steps += [self.snapshot, self.restore, self.move, self.overwrite, self.link, self.close]
        step = self._rng.choice(steps)
        problems: list[str] = step() or []
        for watch in self._watches:
            watch.look()
        return step.__name__, problems + self._shown() + self._compared()

    def put(self) -> None:
        """Write an image."""
        weight, field = self._rng.randrange(1, 120), self._number
        body = {"terms": {"red": weight, "blue": 1}, "metadata": {"n": field}}
        self._write("PUT", lambda _: (2 * weight, field), body)  # the index has half levels

    def delete(self) -> None:
        """Delete an image."""
        self._write("DELETE", lambda _: None)

    def describe(self) -> None:
        """Change the metadata of an image."""
        self._write("PATCH", lambda known: (known[0], self._number), {"n": self._number})

    def _write(self, method: str, change: Callable[[Any], Any], body: Any = None) -> None:
        self._client = self._client or self._writer.enter_context(
            TestClient(create_app(Writing(self._name, ["m"], self._board)))
        )
        image_id, images = self._rng.choice(IDS), self._images[self._name.resolve()]
        found = self._client.request(method, f"/v1/images/{quote(image_id)}", json=body)
        there = image_id in images or method == "PUT"
        assert found.status_code == (200 if there else 404), found.text
        if there and (new := change(images.get(image_id))):
            images[image_id] = new
        else:
            images.pop(image_id, None)
        if there:
            self._waited = int(found.headers[COMMIT]), int(found.headers[PLACE])

    def _shown(self) -> list[str]:
        """Whether both workers say that they show what was written in this step."""
        waited, self._waited = self._waited, None
        return ["not shown"] if waited and not self._board.is_shown(*waited) else []

    def close(self) -> None:
        """End the writer, as a server does when nobody writes."""
        self._writer.close()
        self._client = None

    def alias(self) -> None:
        """Let the name stand for another folder."""
        set_alias(self._name, self._any())

    def link(self) -> None:
        """The same by hand."""
        target = self._any()
        self._name.unlink()
        self._name.symlink_to(target)

    def snapshot(self) -> None:
        """Copy a folder."""
        source = self._any()
        self._copied(source, self._work / f"s{self._number}")

    def _copied(self, source: Path, out: Path) -> Path:
        if self._shards == 1:
            take_snapshot(source, out)
        else:  # copied by hand, while nobody writes
            self.close()
            shutil.copytree(source, out)
        self._images[out] = dict(self._images[source])
        return out

    def restore(self) -> list[str]:
        """Restore a folder over another one."""
        source, target = self._any(), self._any()
        if source == target:
            return []
        try:
            aside = restore_snapshot(source, target)
        except InputError as error:
            if "is being written by process" not in str(error):
                return [str(error)]
            self.close()
            aside = restore_snapshot(source, target)
        assert aside is not None
        shutil.rmtree(aside)
        self._images[target] = dict(self._images[source])
        return []

    def move(self) -> None:
        """Move a folder away by hand, whoever writes to it, and a copy of one to its place."""
        target = self._any()
        copied = self._copied(self._any(), self._work / "copied")
        moved = target.rename(self._work / f"m{self._number}")
        copied.rename(target)
        self._images[moved] = self._images[target]
        self._images[target] = self._images.pop(copied)

    def overwrite(self) -> None:
        """Make the files of a folder those of another one, as rsync does."""
        self.close()
        source, target = self._any(), self._any()
        wanted = {path.relative_to(source): path for path in source.rglob("*") if path.is_file()}
        for path in [*target.rglob("*")]:
            if path.is_file() and path.relative_to(target) not in wanted:
                path.unlink()
        for name, path in wanted.items():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target / ".new")
            (target / ".new").replace(target / name)
        self._images[target] = dict(self._images[source])

    def _any(self) -> Path:
        """One of the folders; the newest ones, so that they do not become too many."""
        served = self._name.resolve()
        return self._rng.choice([served, *list(self._images)[-3:]])

    def _compared(self) -> list[str]:
        """What a searcher finds otherwise than the dict has it."""
        images = self._images[self._name.resolve()]
        ranked = sorted((-value, key, n) for key, (value, n) in images.items() if value)
        right = [(key, -value, n) for value, key, n in ranked]
        newer = self._searcher.refreshed()
        if newer is not None:
            self._searcher.close()
            self._searcher = newer
        found = {"searcher": self._searcher} | {
            f"worker {number}": one.backends.default.searcher
            for number, one in enumerate(self._currents)
        }
        return [
            f"{name}: {answer} instead of {right}"
            for name, one in found.items()
            if (answer := _answer(one)) != right
        ]


def _answer(searcher: Searcher) -> list[tuple[str, float, Any]]:
    hits = searcher.search("red", 50, explain=Explain()).hits
    described = {hit.image_id for hit in hits if "n" in hit.metadata}
    if described:
        filtered = searcher.ids(parse_filter("n:>0"))
        if missing := described.difference(filtered):
            return [(image_id, -1, "is not found by its field") for image_id in sorted(missing)]
    return [(hit.image_id, hit.score, hit.metadata.get("n")) for hit in hits]
