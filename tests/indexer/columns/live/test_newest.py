"""The newest images in their matrix."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from indexer.columns.engine import best_of_newest
from indexer.columns.live import newest as newest_module
from indexer.columns.live.newest import Newest, NewImage
from sparta.errors import InputError
from tests.indexer.columns.corpus import VOCABULARY, new_images


def scores(images: list[NewImage], terms: dict[int, int]) -> dict[int, int]:
    sums = {}
    for number, image in enumerate(images):
        own = dict(zip(image.terms.tolist(), image.impacts.tolist(), strict=True))
        sums[number] = sum(count * own.get(term, 0) for term, count in terms.items())
    return sums


def top(
    found: Newest,
    terms: dict[int, int],
    k: int,
    allowed: NDArray[np.bool_] | None = None,
    floor: int = 0,
) -> dict[int, int]:
    """Score by number of the image."""
    documents, scores = best_of_newest(
        found.columns,
        len(found),
        np.array(list(terms), np.int64),
        np.array(list(terms.values()), np.uint32),
        np.empty(0, np.bool_) if allowed is None else allowed,
        min(k, len(found)),
        floor,
    )
    return dict(zip(documents.tolist(), scores.tolist(), strict=True))


@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("floor", [0, 1, 40, 10**6])
def test_the_best_and_all_that_tie_with_the_last(bits: int, floor: int) -> None:
    own = new_images(300, bits)
    found = Newest.empty(VOCABULARY, bits).after(own[:17]).after(own[17:])
    assert len(found) == 300
    rng = np.random.default_rng(0)
    for k in (1, 3, 50, 1000):
        terms = dict.fromkeys(rng.integers(0, VOCABULARY, 6).tolist(), 2)
        for allowed in (None, rng.random(300) < 0.3):
            sums = scores(own, terms)
            kept = {i: s for i, s in sums.items() if allowed is None or allowed[i]}
            least = sorted(kept.values(), reverse=True)[:k][-1]
            assert top(found, terms, k, allowed, floor) == {
                i: s for i, s in kept.items() if s >= max(1, floor, least)
            }


def test_what_is_appended_later_is_not_seen() -> None:
    own = new_images(40)
    before = Newest.empty(VOCABULARY, 8).after(own[:10])
    one, other = before.after(own[10:20]), before.after(own[20:40])
    every = list(range(VOCABULARY))
    for found, expected in ((before, own[:10]), (one, own[:20]), (other, own[:10] + own[20:])):
        assert len(found) == len(expected)
        impacts = found.impacts(range(len(expected)), every)
        for row, image in zip(impacts, expected, strict=True):
            assert dict(zip(np.flatnonzero(row), row[row > 0], strict=True)) == dict(
                zip(image.terms, image.impacts, strict=True)
            )
        assert [found.stored(i).image_id for i in range(len(expected))] == [
            image.image_id for image in expected
        ]
        sums = scores(expected, {3: 1, 30: 1, 39: 2})
        assert top(found, {3: 1, 30: 1, 39: 2}, 100) == {i: s for i, s in sums.items() if s}


def test_an_interrupted_write_leaves_nothing_behind() -> None:
    own = new_images(20)
    before = Newest.empty(VOCABULARY, 8).after(own[:10])
    with pytest.raises(ValueError, match="shape mismatch"):
        before.after([own[10], NewImage("broken", {}, np.arange(3), np.ones(4, np.int32), "")])
    after = before.after(own[12:14])
    every = list(range(VOCABULARY))
    alone = Newest.empty(VOCABULARY, 8).after(own[12:14])
    np.testing.assert_array_equal(after.impacts([10, 11], every), alone.impacts([0, 1], every))


def test_searches_go_on_while_images_are_appended() -> None:
    own = new_images(400)
    found = [Newest.empty(VOCABULARY, 8).after(own[:100])]
    terms = {35: 1, 36: 1, 38: 2}
    right = top(found[0], terms, 10)
    stop, wrong = threading.Event(), list[dict[int, int]]()

    def search(snapshot: Newest) -> None:
        while not stop.is_set():
            answer = top(snapshot, terms, 10)
            if answer != right:
                wrong.append(answer)

    thread = threading.Thread(target=search, args=(found[0],))
    thread.start()
    for image in own[100:]:
        found.append(found[-1].after([image]))
    stop.set()
    thread.join()
    assert not wrong
    assert len(found[-1]) == 400


@pytest.mark.parametrize(
    ("term", "impact", "name"),
    [(VOCABULARY, 1, "terms"), (-1, 1, "terms"), (0, 256, "impacts"), (0, -1, "impacts")],
)
def test_terms_and_impacts_out_of_range_are_refused(term: int, impact: int, name: str) -> None:
    image = NewImage("a", {}, np.array([term]), np.array([impact]), "")
    with pytest.raises(InputError, match=f"{name} of the images must be from 0 to"):
        Newest.empty(VOCABULARY, 8).after([image])


def test_untouched_pages_are_not_in_memory() -> None:
    """A quarter of a gigabyte is reserved, of which a few images take some pages."""

    def resident() -> int:
        lines = Path("/proc/self/status").read_text().splitlines()
        [line] = [line for line in lines if line.startswith("VmRSS")]
        return int(line.split()[1])

    before = resident()
    image = NewImage("a", {}, np.arange(0, 30_000, 100), np.full(300, 3), "")
    found = Newest.empty(30_000, 16).after([image] * 10)
    assert len(found) == 10
    assert resident() - before < 20_000  # kilobytes


def test_fields_of_full_parts_are_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(newest_module, "PART", 4)
    first = Newest.empty(VOCABULARY, 8).after(new_images(6))
    second = first.after(
        [image._replace(metadata={"width": "x"}) for image in new_images(1, seed=1)]
    )
    before, after = first.fields({}), second.fields({"path": "keyword"})
    assert [part.images for part in before] == [4, 2]
    assert [part.images for part in after] == [4, 3]
    assert after[0] is before[0]
    assert after[1].columns["width"].values.tolist() == [4, 5]
