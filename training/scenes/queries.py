"""Composed queries for rendered scenes, each with all the scenes that answer it."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

from training.scenes.facts import Mention, SceneObject, SceneRecord, mentioned
from training.scenes.lexicon import COUNTS, NOUNS
from training.scenes.phrases import noun_phrase

COLOUR, NUMBER, PAIR = "colour and object", "count and object", "two objects"


@dataclass(frozen=True)
class ComposedQuery:
    """A query and the images that answer it.

    Attributes:
        query: the text.
        kind: what it composes.
        images: names of all scenes of which it is true.
    """

    query: str
    kind: str
    images: tuple[str, ...]


def compose_queries(
    records: Mapping[str, SceneRecord], count: int, seed: int
) -> list[ComposedQuery]:
    """Write different queries, the three kinds in turn, each about a scene chosen at random.

    Args:
        records: scenes by image name.
        count: number of queries; there are fewer if the scenes do not suffice.
        seed: of all random choices.
    """
    rng = random.Random(f"queries/{seed}")
    found: dict[str, ComposedQuery] = {}
    kinds = cycle((COLOUR, NUMBER, PAIR))
    kind = next(kinds)
    for name in rng.sample(sorted(records), len(records)):
        wanted = _mentions(records[name], kind, rng)
        text = _phrase(wanted, rng) if wanted else ""
        if not text or text in found:
            continue
        answers = tuple(n for n, record in records.items() if _shows(record, wanted))
        found[text] = ComposedQuery(text, kind, answers)
        if len(found) == count:
            break
        kind = next(kinds)
    return list(found.values())


def write_queries(corpus: Path, count: int, seed: int) -> int:
    """Write `queries.jsonl` into the folder of a corpus; returns the number of queries."""
    lines = (corpus / "scenes.jsonl").read_text(encoding="utf-8").splitlines()
    scenes = [json.loads(line) for line in lines]
    queries = compose_queries({scene["image"]: _record(scene) for scene in scenes}, count, seed)
    text = "".join(json.dumps(asdict(query)) + "\n" for query in queries)
    (corpus / "queries.jsonl").write_text(text, encoding="utf-8")
    return len(queries)


def _record(scene: dict[str, Any]) -> SceneRecord:
    """A line of `scenes.jsonl` as the record it was written from."""
    objects = tuple(SceneObject(**{**item, "box": tuple(item["box"])}) for item in scene["objects"])
    return SceneRecord(scene["background"], scene["light"], scene["weather"], objects)


def _mentions(record: SceneRecord, kind: str, rng: random.Random) -> tuple[Mention, ...]:
    """What a query of this kind can mention of a scene; empty if there is nothing."""
    if kind == COLOUR:
        item = rng.choice(record.objects)
        return (Mention(item.label, item.colour, None, 1),)
    labels = [item.label for item in record.objects]
    numbers = {label: labels.count(label) for label in labels}
    if kind == NUMBER:
        several = [Mention(label, None, None, n) for label, n in numbers.items() if n > 1]
        return (rng.choice(several),) if several else ()
    if len(numbers) < 2:
        return ()
    return tuple(Mention(label, None, None, 1) for label in rng.sample(list(numbers), 2))


def _phrase(wanted: tuple[Mention, ...], rng: random.Random) -> str:
    """A number is written as a word that means no other; everything else as in captions."""
    if wanted[0].count > 1:
        return f"{COUNTS[wanted[0].count][0]} {rng.choice(NOUNS[wanted[0].noun])[1]}"
    return " and ".join(noun_phrase(who, rng) for who in wanted)


def _shows(record: SceneRecord, wanted: tuple[Mention, ...]) -> bool:
    """Whether a scene has at least one of what is mentioned once, and else the exact number."""
    return all(
        len(found) == who.count if who.count > 1 else bool(found)
        for who in wanted
        for found in [mentioned(record, who)]
    )
