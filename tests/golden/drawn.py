"""Drawn images and questions; whole numbers are drawn, so that all machines draw the same."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
WORDS, IN_NO_IMAGE = 2_600, 100
BLOCK = 4_096  # images that are drawn at once
EACH = 300  # terms an image, about
BOXES = np.array([[0, 0, 1, 1], [0, 0, 0.5, 0.5], [0.5, 0.25, 1, 1]], np.float32)
# What fields of images and questions are drawn from.
TABLES: dict[str, list[Any]] = json.loads(
    Path(__file__).with_suffix(".json").read_text(encoding="utf-8")
)
FILTERS: list[str | dict[str, Any]] = TABLES["filters"]


def draw_images(ids: list[str], shares: NDArray[np.int64], seed: int) -> dict[str, Any]:
    """Images end to end, with independent terms; one of 50 equals the one before it.

    Args:
        ids: sorted.
        shares: [V] of 65,536 images those that have each term.
        seed: of all that is drawn.
    """
    rng, count = np.random.default_rng(seed), len(ids)
    present = rng.integers(0, 65_536, (count, len(shares)), np.uint16) < shares
    present[1::50] = present[::50][: len(present[1::50])]
    starts = np.concatenate([[0], np.cumsum(present.sum(axis=1))]).astype(np.int64)
    terms = present.nonzero()[1].astype(np.int32)
    impacts = 1 + rng.integers(0, 256, len(terms)).astype(np.int32) ** 3 // 65_536  # 1 to 254
    for i in range(1, count, 50):
        impacts[starts[i] : starts[i + 1]] = impacts[starts[i - 1] : starts[i]]
    return {
        "ids": ids,
        "metadata": [draw_metadata(image_id, seed) for image_id in ids],
        "starts": starts,
        "terms": terms,
        "impacts": impacts,
        "positions": (terms % 6 - 1).astype(np.int16),  # nothing, three boxes, two labels
        "boxes": np.tile(BOXES, (count, 1)),
        "box_starts": np.arange(count + 1) * len(BOXES),
        "label_terms": rng.choice(np.flatnonzero(shares), 2 * count).astype(np.int32),
        "label_regions": np.tile(np.array([0, 2], np.int16), count),
        "label_starts": np.arange(count + 1) * 2,
    }


def draw_metadata(image_id: str, seed: int) -> dict[str, Any]:
    """Fields of every kind, each of which some images lack."""
    rng = Random(f"{image_id} {seed}")
    day = f"{rng.randint(2015, 2024)}-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}"
    place = {"lat": rng.randint(-6000, 7500) / 100, "lon": rng.randint(-18000, 18000) / 100}
    fields = {
        "camera": rng.choice(TABLES["cameras"]),
        "iso": 100 * 2 ** rng.randint(0, 6),
        "fNumber": rng.choice((1.4, 2.8, 4, 5.6)),
        "taken": rng.choice((day, f"{day}T{rng.randint(0, 23):02d}:30:00")),
        "favourite": rng.random() < 0.2,
        "location": place,
        "note": " ".join(rng.choices(TABLES["notes"], k=5)),
        "tags": rng.sample("abcdefgh", 3),
        "rating": rng.choice((1, 2, 3, 4, 5, "five")),  # declared as a number
    }
    return {name: value for name, value in fields.items() if rng.random() < 0.9}


class Collection:
    """Drawn images, of which terms have as many as Zipf's law says, and the last words none."""

    def __init__(self, count: int) -> None:
        syllables = [a + b for a in "bdfghklmnprstvz" for b in "aeiou"]
        words = Random(1).sample([a + b for a in syllables for b in syllables], WORDS)
        self.vocabulary = [*SPECIAL, "##s", "##ing", *(f"##{one}" for one in syllables), *words]
        self.substitutes = dict(zip(words[-IN_NO_IMAGE // 2 :], words, strict=False))
        ends = ("", "", " é", " b")
        self.ids = [f"{i // 1000:03d}/{i:06d}{ends[i % 4]}.jpg" for i in range(count)]
        weights = 1 / np.arange(20, 20 + len(self.vocabulary) - len(SPECIAL) - IN_NO_IMAGE) ** 0.8
        found = np.minimum(45_000, 65_536 * EACH / weights.sum() * weights).astype(np.int64)
        self._shares = np.zeros(len(self.vocabulary), np.int64)
        self._shares[len(SPECIAL) : -IN_NO_IMAGE] = np.random.default_rng(2).permutation(found)

    def blocks(self) -> Iterator[dict[str, Any]]:
        """The images, in the order of their ids."""
        for first in range(0, len(self.ids), BLOCK):
            yield draw_images(self.ids[first : first + BLOCK], self._shares, first)


def draw_questions(words: Sequence[str], ids: Sequence[str], seed: int) -> list[dict[str, Any]]:
    """300 questions of every kind, of words of a vocabulary and of images."""
    rng = Random(seed)
    asked: list[dict[str, Any]] = [{"kind": "fields", "call": "fields"}]
    orders = TABLES["sorts"]

    def some(least: int, most: int) -> list[str]:
        return rng.sample(words[:-IN_NO_IMAGE], rng.randint(least, most))

    def ask(kind: str, query: str, call: str = "search", **options: Any) -> None:
        k = (10, 1, 100, 10, 1000)[len(asked) % 5]
        asked.append({"kind": kind, "call": call, "query": query, "k": k} | options)

    for number in range(50):
        text = " ".join(some(1, 12)) + rng.choice((".", " and more", "s", ""))
        ask("plain", f"The {text}", explain=number % 3 == 0)
    for _ in range(15):
        ask("weights", " ".join(f"{word}^{rng.randint(1, 100)}" for word in some(1, 5)))
    for _ in range(20):
        ask("required", " ".join(f"{rng.choice(('', '+'))}{word}" for word in some(2, 4)))
    for _ in range(20):
        ask("excluded", " ".join([*some(1, 4), *(f"-{word}" for word in some(1, 3))]))
    for sign in ("+", "-", "", "+", "-") * 2:
        first, second, *others = some(3, 5)
        weight = "" if sign == "-" else "^3"
        ask("phrases", f'{sign}"{first} {second}"{weight} {" ".join(others)}')
    for number in range(20):
        missing, typed = rng.sample(words[-IN_NO_IMAGE:], 2), some(1, 1)[0]
        signed = rng.choice(("+", "-", "")) + missing[0]
        text = " ".join([*some(0, 3), *missing, f"{typed}qx жук", signed])
        ask("unknown", text, substitute=number % 3 > 0)
    for number, condition in enumerate(FILTERS + FILTERS[:10]):
        query = "" if number % 6 == 5 else " ".join(some(1, 5))
        ask("filters", query, filter=condition)
    for number in range(15):
        ask("coverage", " ".join(some(2, 6)), min_coverage=(0, 0.4, 0.7, 1)[number % 4])
    for number in range(30):
        near = "" if number % 3 else " ".join([*some(1, 3), "-" + some(1, 1)[0]])
        within = {"filter": FILTERS[number % 22]} if number % 5 == 4 else {}
        images = rng.sample(ids, 1 if number % 2 else rng.randint(2, 5))
        ask("similar", near, "similar", images=images, **within)
    for _ in range(25):
        text = " ".join([*some(2, 6), "+" + some(1, 1)[0], "-" + some(1, 1)[0], words[-1]])
        ask("explain", text, "explain", image=rng.choice(ids))
    for number in range(20):
        query = " ".join(some(1, 3)) if number % 3 == 2 else ""
        offset: dict[str, Any] = {"offset": 7} if number % 4 == 1 else {}
        ask("browse", query, sort=orders[number % 8], filter=FILTERS[number % 22], **offset)
    for number in range(10):
        query = "" if number % 2 else " ".join(some(1, 3))
        ask("facets", query, facets=TABLES["facets"][number % 4], filter=FILTERS[number])
    for number in range(10):
        order = {"sort": orders[number % 8]} if number % 2 else {}
        ask("pages", " ".join(some(1, 3)), pages=3, k=5 + 10 * number, **order)
    for word in some(8, 8):
        ask("suggest", word[: rng.randint(1, 4)] + rng.choice(("", "", "x")), "suggest", k=10)
    for query in TABLES["refused"]:
        ask("refused", query)
    ask("refused", "dog", filter="moons:1")
    return asked
