"""What is said of a scene: five captions that are true of it, and queries."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, cycle, product, repeat

from tests.scenes.drawings import KINDS, PALETTE, TABLES, forms

# ---- words --------------------------------------------------------------------------------------

Synonyms = dict[str, list[str]]

CATEGORIES = {name: frozenset(kinds.split()) for name, kinds in TABLES["categories"].items()}
"""General nouns and the kinds they cover."""

NOUNS = {name: kind.nouns for name, kind in KINDS.items()}
NOUNS |= {name: forms(text) for name, text in TABLES["nouns"].items()}
CLOTHES = {name: forms(text) for name, text in TABLES["clothes"].items()}
COLOURS: Synonyms = {name: [name] for name in PALETTE} | TABLES["colour_words"]
SIZES: Synonyms = TABLES["sizes"]
COUNTS: Synonyms = TABLES["counts"]
RELATIONS: Synonyms = TABLES["relations"]
POSITIONS: Synonyms = TABLES["positions"]
ACTIONS: Synonyms = TABLES["actions"]
PLACES: Synonyms = TABLES["places"]
VIEWS: Synonyms = TABLES["views"]
LIGHTS: Synonyms = TABLES["lights"]
WEATHERS: Synonyms = TABLES["weathers"]
PATTERNS: Synonyms = TABLES["patterns"]

# ---- facts ---------------------------------------------------------------------------------------


Box = tuple[float, float, float, float]


@dataclass(frozen=True)
class SceneObject:
    label: str  # its kind
    colour: str  # name of its main colour (of the clothes, for people)
    size: str  # "small", "medium" or "large", relative to its kind
    action: str | None  # what it does, or None
    box: Box  # x1, y1, x2, y2 relative to the image, from 0 to 1, hidden parts included
    depth: int  # drawing order; objects of greater depth are nearer and may hide others
    support: int | None = None  # index of the object it stands on, or None

    @property
    def centre(self) -> tuple[float, float]:
        x1, y1, x2, y2 = self.box
        return (x1 + x2) / 2, (y1 + y2) / 2


@dataclass(frozen=True)
class SceneRecord:
    """Description of a scene: everything except its pixels."""

    background: str
    light: str
    weather: str
    objects: tuple[SceneObject, ...]


@dataclass(frozen=True)
class Mention:
    """The scene contains exactly `count` objects of this noun (and colour, and size)."""

    noun: str
    colour: str | None
    size: str | None
    count: int


def mentioned(record: SceneRecord, who: Mention) -> list[SceneObject]:
    """All objects that a mention's noun with its adjectives describes, however many."""
    kinds = CATEGORIES.get(who.noun, {who.noun})
    return [
        o
        for o in record.objects
        if o.label in kinds and who.colour in (None, o.colour) and who.size in (None, o.size)
    ]


def overlap(a: Box, b: Box) -> float:
    """Area of the intersection of two boxes, relative to the smaller box."""
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    smaller = min((a[2] - a[0]) * (a[3] - a[1]), (b[2] - b[0]) * (b[3] - b[1]))
    return max(0.0, width) * max(0.0, height) / smaller


def _gap(a: Box, b: Box) -> float:
    dx = max(a[0] - b[2], b[0] - a[2], 0.0)
    dy = max(a[1] - b[3], b[1] - a[3], 0.0)
    return max(dx, dy)


def related(record: SceneRecord, a: SceneObject, relation: str, b: SceneObject) -> bool:
    """Whether the relation clearly holds, from boxes and depth."""
    dx, dy = b.centre[0] - a.centre[0], b.centre[1] - a.centre[1]
    on = a.support is not None and record.objects[a.support] is b
    beneath = b.support is not None and record.objects[b.support] is a
    hides = overlap(a.box, b.box) > 0.06 and not (on or beneath)
    level = abs(a.box[3] - b.box[3]) < 0.12
    return {
        "left of": dx > 0.15 and dx > abs(dy),
        "right of": -dx > 0.15 and -dx > abs(dy),
        "above": dy > 0.2 and dy > abs(dx) and not on,
        "below": -dy > 0.2 and -dy > abs(dx) and not beneath,
        "next to": level and not hides and abs(dx) > 0.08 and _gap(a.box, b.box) < 0.1,
        "in front of": hides and a.depth > b.depth,
        "behind": hides and a.depth < b.depth,
        "on": on,
    }[relation]


def located(item: SceneObject, position: str) -> bool:
    """Whether an object lies in a part of the picture."""
    x, y = item.centre
    return {
        "left": x < 0.34,
        "right": x > 0.66,
        "top": y < 0.34,
        "bottom": y > 0.74,
        "middle": abs(x - 0.5) < 0.12,
    }[position]


# ---- captions ------------------------------------------------------------------------------------


def noun_phrase(who: Mention, rng: random.Random, article: bool = True) -> str:
    """A noun phrase for a mention, such as "two small brown dogs" or "a lady in a red dress"."""
    plural = who.count > 1
    noun = rng.choice(NOUNS[who.noun])[plural]
    adjectives = [rng.choice(SIZES[who.size])] if who.size else []
    tail = ""
    if who.colour:
        colour = rng.choice(COLOURS[who.colour])
        if who.noun in CLOTHES:
            tail = _clothes(who, colour, rng)
        elif not plural and article and rng.random() < 0.06:
            tail = f" which is {colour}"
        else:
            adjectives.append(colour)
    words = " ".join([*adjectives, noun])
    if plural:
        return f"{rng.choice(COUNTS[str(who.count)])} {words}{tail}"
    return (_with_article(words, rng) if article else words) + tail


def _clothes(who: Mention, colour: str, rng: random.Random) -> str:
    one, many = rng.choice(CLOTHES[who.noun])
    worn = f"{colour} {many}" if who.count > 1 else _with_article(f"{colour} {one}")
    return f" {rng.choice(('in', 'in', 'wearing', 'dressed in'))} {worn}"


def _with_article(words: str, rng: random.Random | None = None) -> str:
    if words.endswith((" sun", " moon")) or words in ("sun", "moon"):
        return f"the {words}"
    if rng is not None and rng.random() < 0.04:
        return f"one {words}"
    return f"{'an' if words[0] in 'aeiou' else 'a'} {words}"


_SLOT = re.compile(r"\{(\w+)\}")


class CaptionWriter:
    """Writes the captions of one scene, in different forms; they say only what is true of it."""

    def __init__(self, record: SceneRecord, rng: random.Random) -> None:
        self.record = record
        self.rng = rng

    def write(self) -> list[str]:
        """Five different captions in random order."""
        forms = ["listing", "relating", "single", "setting"]
        forms.append(self.rng.choice(["acting", "placing", "pairing", "short", "relating"]))
        if self.rng.random() < 0.4:
            forms[2] = "short"
        captions: list[str] = []
        for form in forms:
            # The setting has many wordings, so that this ends.
            for wanted in chain([form] * 8, repeat("setting")):
                caption = self._caption(wanted)
                if caption is not None and caption not in captions:
                    captions.append(caption)
                    break
        self.rng.shuffle(captions)
        return captions

    def _mention(self, label: str | None = None, rich: float = 0.7) -> Mention:
        """Refer to some objects by noun and, with probability `rich`, by colour and by size."""
        rng, record = self.rng, self.record
        item = rng.choice([o for o in record.objects if label in (None, o.label)])
        noun = item.label
        wider = [name for name, kinds in CATEGORIES.items() if noun in kinds]
        if wider and label is None and rng.random() < 0.07:
            noun = wider[0]
        colour = item.colour if rng.random() < rich and noun not in CATEGORIES else None
        size = item.size if item.size != "medium" and rng.random() < rich else None
        who = Mention(noun, colour, size, 0)
        return replace(who, count=len(mentioned(record, who)))

    def _pair(self) -> tuple[Mention, Mention] | None:
        """Two mentions of different objects, or None."""
        a, b = self._mention(), self._mention()
        both = mentioned(self.record, a) + mentioned(self.record, b)
        disjoint = len({id(o) for o in both}) == len(both)
        return (a, b) if disjoint else None

    def _related(self, a: Mention, relation: str, b: Mention) -> bool:
        """Whether every mentioned subject has a relation to every mentioned object."""
        pairs = product(mentioned(self.record, a), mentioned(self.record, b))
        return all(one is not o and related(self.record, one, relation, o) for one, o in pairs)

    def _caption(self, form: str) -> str | None:
        """A caption of this form, None if the objects it would mention have nothing of the kind."""
        b, relation = None, None
        if form in ("pairing", "relating", "short"):
            pair = self._pair()
            if pair is None and form != "short":
                return None
            a, b = pair or (self._mention(rich=0.5), None)
        else:
            a = self._mention(rich=0.4 if form == "setting" else 0.7)
        if form == "relating" and b is not None:
            true = [one for one in RELATIONS if self._related(a, one, b)]
            if not true:
                return None
            relation = self.rng.choice(true)
        slots = self._slots(a, b)
        if relation is not None:
            slots["rel"] = partial(self.rng.choice, RELATIONS[relation])
        own = mentioned(self.record, a)
        where = [part for part in POSITIONS if all(located(o, part) for o in own)]
        names = slots.keys() | ({"where"} if where else set())
        possible = [p for p in PATTERNS[form] if set(_SLOT.findall(p)) <= names]
        if not possible:
            return None
        if where:
            slots["where"] = partial(self.rng.choice, POSITIONS[self.rng.choice(where)])
        text = _SLOT.sub(lambda match: slots[match[1]](), self.rng.choice(possible))
        if self.rng.random() < 0.6:
            text = text[0].upper() + text[1:] + ("." if self.rng.random() < 0.8 else "")
        return text

    def _slots(self, a: Mention, b: Mention | None) -> dict[str, Callable[[], str]]:
        """The slots that can be filled with what is true of this scene, by name."""
        choose = self.rng.choice
        slots: dict[str, Callable[[], str]] = {
            "place": partial(choose, PLACES[self.record.background]),
            "view": partial(choose, VIEWS[self.record.background]),
            "when": self._when,
            "list": self._list,
        }
        for name, bare, who in (("a", "bare", a), ("b", "bare_b", b)):
            if who is not None:
                slots[name] = partial(noun_phrase, who, self.rng)
                slots[bare] = partial(noun_phrase, who, self.rng, False)
                slots[f"{name}_is"] = partial(str, "are" if who.count > 1 else "is")
                [action, *others] = {o.action for o in mentioned(self.record, who)}
                if action and not others:
                    slots[f"{name}_does"] = partial(choose, ACTIONS[action])
        return slots

    def _when(self) -> str:
        if self.record.weather != "clear" and self.rng.random() < 0.6:
            return self.rng.choice(WEATHERS[self.record.weather])
        return self.rng.choice(LIGHTS[self.record.light])

    def _list(self) -> str:
        """An enumeration of up to four kinds of object in the scene."""
        labels = list(dict.fromkeys(o.label for o in self.record.objects))
        self.rng.shuffle(labels)
        mentions = [self._mention(label, rich=0.85) for label in labels[:4]]
        phrases = [noun_phrase(who, self.rng) for who in mentions]
        return phrases[0] if len(phrases) == 1 else f"{', '.join(phrases[:-1])} and {phrases[-1]}"


# ---- queries -------------------------------------------------------------------------------------


COLOUR, NUMBER, PAIR = "colour and object", "count and object", "two objects"


@dataclass(frozen=True)
class ComposedQuery:
    query: str  # the text
    kind: str  # what it composes
    images: tuple[str, ...]  # names of all scenes of which it is true


def compose_queries(
    records: Mapping[str, SceneRecord], count: int, seed: int
) -> list[ComposedQuery]:
    """Write different queries, the three kinds in turn, each about a scene chosen at random."""
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
        return f"{COUNTS[str(wanted[0].count)][0]} {rng.choice(NOUNS[wanted[0].noun])[1]}"
    return " and ".join(noun_phrase(who, rng) for who in wanted)


def _shows(record: SceneRecord, wanted: tuple[Mention, ...]) -> bool:
    """Whether a scene has at least one of what is mentioned once, and else the exact number."""
    return all(
        len(found) == who.count if who.count > 1 else bool(found)
        for who in wanted
        for found in [mentioned(record, who)]
    )
