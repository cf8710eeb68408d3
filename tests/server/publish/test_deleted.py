"""What was deleted is not counted: one commit has one answer, however its images are stored."""

from __future__ import annotations

import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from indexer.engines.open import open_index
from indexer.maintenance.combine import split_index
from indexer.maintenance.copies import take_snapshot
from indexer.postings import ImagePostings, Postings
from indexer.store.changes import Add, Change, Delete, MetadataChange
from indexer.update.writer import open_writer
from server.publish.collection import open_collection
from tests.indexer.live_index import answer
from tests.indexer.random_postings import random_postings, word_tables, write_postings
from tests.indexer.vocabulary import COMMON, RARE, small_tokenizer
from tests.server.publish.collections import (
    NodePage,
    answers,
    hosting,
    publish_collection,
    write_script,
)

RNG = np.random.default_rng(5)
# Alike, so that a misspelt word may stand for several, and counts decide.
WORDS = sorted({"".join(RNG.choice([*"bcdae"], RNG.integers(4, 9))) for _ in range(90)})
PIECES = ["##bad", "##cab"]
TOKENIZER = small_tokenizer([*WORDS, COMMON, RARE, *PIECES])
TYPOS = sorted(
    {word[:at] + letter + word[at + skip :] for word in WORDS[::12] for at in range(3)
     for letter in "ae" for skip in (0, 1)} - {*WORDS}
)  # fmt: skip
BEGINNINGS = [*"abcde", "ba", "ce", "dea", "edbx"]
JOINED = ("bacbad", "decab", "bebad")  # words of two pieces


@cache
def built(folder: Path) -> Path:
    tables = word_tables({}, (), [*WORDS, *JOINED], ("beadle",))
    whole = folder / "built"
    write_postings(whole, [with_seldom(random_postings(TOKENIZER, 120, 9))], TOKENIZER,
                   tables=tables, lucene=False)  # fmt: skip
    return whole


def with_seldom(images: Postings) -> Postings:
    """Images of which each has only some words, so that words are in different numbers of them."""
    shares = np.random.default_rng(2).random(len(TOKENIZER.vocabulary)) ** 3
    return Postings.of([thinned(image, shares, n) for n, image in enumerate(images)])


def thinned(image: ImagePostings, shares: np.ndarray, seed: int) -> ImagePostings:
    kept = np.random.default_rng(seed).random(len(image.terms)) < shares[image.terms]
    own = {name: getattr(image, name)[kept] for name in ("terms", "impacts", "positions")}
    return replace(image, **own)


def changes(seed: int) -> list[list[Change]]:
    """Commits that delete, replace, describe and add images."""
    rng = np.random.default_rng(seed)
    ids = [image.image_id for image in random_postings(TOKENIZER, 120, 9)]
    rng.shuffle(ids)
    new = [*with_seldom(random_postings(TOKENIZER, 40, seed))]
    gone = rng.choice([5, 40, 80])  # few, or more than half
    replaced = [replace(image, image_id=one) for image, one in zip(new, ids[80:100], strict=False)]
    added = [replace(image, image_id=f"b/{n}") for n, image in enumerate(new[20:])]
    described: list[Change] = [MetadataChange(one, {"n": 1}) for one in ids[100:110]]
    return [
        [*map(Delete, ids[:gone]), *map(Add, replaced)],
        [*described, *map(Add, added)],
        [*(Delete(image.image_id) for image in added[::2]), Delete(ids[100]), Delete(ids[85])],
    ]


def write_all(index: Path, commits: list[list[Change]]) -> Path:
    with open_writer(index) as writer:
        for one in commits:
            writer.write(one)
            writer.commit()
    return index


def merge(index: Path) -> None:
    with open_writer(index) as writer:
        writer.merge()


def asked(index: Path) -> dict[str, Any]:
    """Whatever may depend on counts."""
    searcher = open_index(index)
    found: dict[str, Any] = {
        f"{text} {number}": [*map(tuple, searcher.complete(text, number))]
        for text in (*BEGINNINGS, *TYPOS[::3])
        for number in (1, 6)
    }
    for typo in TYPOS:
        result = searcher.search(typo, 20)
        found[typo] = answer(result), result.substitutions, result.corrections, result.unknown
        found[f"correct {typo}"] = [*map(tuple, searcher.correct(typo, 4))]
    searcher.close()
    return found


def on_its_site(index: Path, folder: Path) -> dict[str, Any]:
    """The same of the published site, in the form of `asked`."""
    write_script(folder)
    publish_collection(folder / "own", open_collection(index))
    searched = [("search", typo, {"k": 20}) for typo in TYPOS]
    completed = [("complete", text, number) for text in (*BEGINNINGS, *TYPOS[::3])
                 for number in (1, 6)]  # fmt: skip
    with hosting(folder) as address:
        found = answers(NodePage(folder, address), "own", [*searched, *completed])
    made: dict[str, Any] = {
        f"{text} {number}": [(one["text"], one["word"], one["images"]) for one in own]
        for (_, text, number), own in zip(completed, found[len(searched) :], strict=True)
    }
    for typo, own in zip(TYPOS, found, strict=False):
        hits = [(n + 1, hit["image_id"], hit["score"]) for n, hit in enumerate(own["hits"])]
        made[typo] = hits, [one["term"] for one in own["substitutions"]]
    return made


@pytest.mark.needs("Node.js")
@pytest.mark.parametrize("seed", range(2))
def test_what_was_deleted_is_not_counted(
    seed: int, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    base, commits = built(tmp_path_factory.getbasetemp()), changes(seed)
    live = write_all(Path(shutil.copytree(base, tmp_path / "live")), commits)
    merged = Path(shutil.copytree(live, tmp_path / "merged"))
    merge(merged)
    wanted = asked(merged)
    assert sum(bool(own[1]) for name, own in wanted.items() if name in TYPOS) > len(TYPOS) / 3
    # A segment with deleted images, after which the log goes on.
    half = Path(shutil.copytree(base, tmp_path / "half"))
    write_all(half, commits[:1])
    merge(half)
    write_all(half, commits[1:])
    take_snapshot(live, tmp_path / "snapshot")
    for index in (live, half, tmp_path / "snapshot"):
        assert asked(index) == wanted, index
    for shards in (1, 2, 4):
        sharded = tmp_path / f"shards-{shards}"
        split_index(base, sharded, shards)
        assert asked(write_all(sharded, commits)) == wanted, shards
        merge(sharded)
        assert asked(sharded) == wanted, shards
    for name, own in on_its_site(live, tmp_path / "site").items():
        right = wanted[name]
        if name in TYPOS:
            right = right[0], [one.term for one in right[1]]
        assert own == right, name
