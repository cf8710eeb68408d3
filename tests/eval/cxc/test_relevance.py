"""Which pairs are right: a tiny case by hand, the published split by loops over its lines."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from eval.cxc.files import JudgedPair, Judgements, read_judgements
from eval.cxc.relevance import relevant_items
from sparta.errors import InputError
from tests.eval.cxc.tiny import write_judgements


def test_a_tiny_split(tmp_path: Path) -> None:
    right = relevant_items(read_judgements(write_judgements(tmp_path / "cxc"), "val"))
    assert right.captions == [1, 5, 3, 2, 9, 4] and right.images == [20, 7, 11]
    assert right.ways == {
        # Caption 5 is COCO's own of image 20 in spite of its 2.0; 2.99 is not enough.
        "text → image": [[0, 1], [0], [1], [1, 2], [2], [2]],
        "image → text": [[0, 1], [0, 2, 3], [3, 4, 5]],
        # Co-captions in spite of 0.5; a judgement holds both ways.
        "text → text": [[1, 2], [0], [0, 3], [2, 4], [3, 5], [4]],
        # Judged twice: the higher score decides. Image 11 has nothing.
        "image → image": [[1], [0], []],
    }


def test_the_published_validation_split(shared: Path) -> None:
    right = relevant_items(read_judgements(shared / "cxc", "val"))
    assert len(right.captions) == 25_000 and len(right.images) == 5000
    rows = {
        name: list(csv.reader((shared / "cxc" / f"{name}_val.csv").open()))[1:]
        for name in ("sits", "sts", "sis")
    }
    own = {a: b for a, b, _, method in rows["sits"] if method == "c2i_original"}
    fits = {(a, b) for a, b, score, _ in rows["sits"] if float(score) >= 3} | set(own.items())
    assert sum(map(len, right.ways["text → image"])) == len(fits) == 25_000 + 12_292
    assert sum(map(len, right.ways["image → text"])) == len(fits)
    assert all(right.ways["text → image"]) and all(right.ways["image → text"])
    alike = {frozenset((a, b)) for a, b, score, _ in rows["sts"] if float(score) >= 3}
    new = sum(own[min(pair)] != own[max(pair)] for pair in alike)
    assert new == 1092
    assert sum(map(len, right.ways["text → text"])) == 25_000 * 4 + 2 * new
    similar = {frozenset((a, b)) for a, b, score, _ in rows["sis"] if float(score) >= 2.5}
    assert sum(map(len, right.ways["image → image"])) == 2 * len(similar)
    assert sum(map(bool, right.ways["image → image"])) == len(set().union(*similar)) == 4927


def test_files_of_different_splits() -> None:
    original = JudgedPair(1, 20, 5.0, "c2i_original")
    with pytest.raises(InputError, match=r"the pair 1, 3 \(c2c_isim\) .* not of one split"):
        relevant_items(Judgements([original], [JudgedPair(1, 3, 0.0, "c2c_isim")], []))
    with pytest.raises(InputError, match="caption 1 is of two images, 20 for one"):
        relevant_items(Judgements([original, JudgedPair(1, 21, 5.0, "c2i_original")], [], []))
