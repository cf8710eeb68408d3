"""What is said of a scene: five captions that are true of it, and queries."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, cycle, product, repeat

from tests.scenes.drawings import KINDS, PALETTE

# ---- words --------------------------------------------------------------------------------------

CATEGORIES = {
    name: frozenset(kinds.split())
    for name, kinds in {
        "animal": "dog cat horse cow sheep rabbit elephant bird duck penguin turtle butterfly fish"
        " crab octopus",
        "person": "man woman",
        "vehicle": "car bus truck tractor bicycle",
    }.items()
}
"""General nouns and the kinds they cover."""


def _table(text: str) -> dict[str, tuple[str, ...]]:
    """Synonyms by name; further lines of an entry begin with a blank."""
    entries = (entry.partition(": ") for entry in text.strip().replace("\n ", "").split("\n"))
    return {name: tuple(map(str.strip, words.split("|"))) for name, _, words in entries}


NOUNS = {name: kind.nouns for name, kind in KINDS.items()} | {
    "animal": (("animal", "animals"), ("creature", "creatures")),
    "person": (("person", "people"), ("human", "humans")),
    "vehicle": (("vehicle", "vehicles"),),
}
CLOTHES = {
    "man": (("shirt", "shirts"), ("sweater", "sweaters")),
    "woman": (("dress", "dresses"), ("gown", "gowns")),
}
COLOURS = {name: (name,) for name in PALETTE} | _table("""
red: red | red | red | scarlet
yellow: yellow | yellow | yellow | golden
turquoise: turquoise | turquoise | teal
purple: purple | purple | violet
brown: brown | brown | brown | chestnut
grey: grey | gray
""")
SIZES = _table("""
small: small | little | tiny
large: large | big | huge
""")
COUNTS = _table("""
2: two | two | a pair of | a couple of | 2
3: three | three | several | some | 3
4: four | four | several | a group of | 4
5: five | several | many | 5
6: six | several | many | 6
7: seven | several | many | 7
""")
RELATIONS = _table("""
left of: to the left of | left of | on the left of
right of: to the right of | right of | on the right of
above: above | over | higher than | up above
below: below | under | beneath | lower than
next to: next to | beside | near | close to | by
in front of: in front of | partly hiding | before
behind: behind | partly hidden by | in back of
on: on | on top of | resting on | placed on
""")
POSITIONS = _table("""
left: on the left | on the left side | at the left of the picture
right: on the right | on the right side | at the right of the picture
top: at the top | high up in the picture | in the upper part of the image
bottom: at the bottom | in the lower part of the image | low in the picture
middle: in the middle | in the centre | in the center of the picture
""")
ACTIONS = _table("""
stand: standing | standing still | waiting
sit: sitting | seated | resting
fly: flying | soaring | in flight
swim: swimming | paddling
sail: sailing | floating
float: floating | drifting | hovering
crawl: crawling | creeping
park: parked | standing still
grow: growing | rooted
shine: shining | glowing
lie: lying | lying around
hang: hanging
burn: burning | lit
""")
PLACES = _table("""
beach: on the beach | at the beach | by the sea | at the seaside | on the sandy shore
forest: in the forest | in the woods | in a shady forest | deep in the woodland
street: on the street | in the city | on a road | in town | in front of tall buildings
mountain: in the mountains | in the snow | on a snowy slope | below snowy peaks
desert: in the desert | among the dunes | in a dry desert | in front of sand dunes
meadow: in a meadow | on the grass | in a green field | in the countryside
lake: by the lake | at the lake | at the lakeside | near the water
farm: on a farm | on a ploughed field | by the fence | on farmland
living_room: in the living room | in the lounge | at home | indoors | inside a room
kitchen: in the kitchen | indoors | in a tiled kitchen
underwater: under water | underwater | deep in the sea | beneath the waves
sky: in the sky | high in the sky | above the clouds | up in the air
""")
VIEWS = _table("""
beach: a beach | a sandy beach | the seaside | the sea shore
forest: a forest | the woods | woodland
street: a city street | a street | a town
mountain: snowy mountains | a winter landscape | a snowy landscape
desert: a desert | sand dunes | a dry landscape
meadow: a meadow | a green field | grassy hills
lake: a lake | a calm lake | a lake shore
farm: a farm | farmland | a ploughed field
living_room: a living room | a lounge | a room
kitchen: a kitchen | a tiled kitchen
underwater: an underwater scene | the sea floor | the bottom of the sea
sky: the sky | clouds and sky | a sky full of clouds
""")
LIGHTS = _table("""
day: during the day | in daylight | by day | in bright light
dusk: at dusk | at sunset | in the evening | in warm evening light | at twilight
night: at night | in the dark | after dark | by night
""")
WEATHERS = _table("""
rain: in the rain | on a rainy day | in wet weather | while it rains
snow: in falling snow | while it snows | on a cold winter day
fog: in the fog | in thick mist | on a foggy day | on a misty morning
""")

# Slots: {a} {b} noun phrases; {a_is} {b_is} "is" or "are"; {a_does} {b_does} actions; {rel} the
# relation of a to b; {where} the part of the picture a is in; {place} {view} the background; {when}
# light or weather; {list} all objects; {bare} {bare_b} noun phrases without article.
PATTERNS = _table("""
single: {a} | there {a_is} {a} | a photo of {a} | a picture of {a} | an image showing {a} | we can
  see {a} | {a} {place} | {place} there {a_is} {a} | here {a_is} {a} {place}
acting: {a} {a_does} | {a} {a_does} {place} | {a} {a_is} {a_does} {place} | {a} {a_does} {place}
  {when} | {when}, {a} {a_is} {a_does}
relating: {a} {rel} {b} | {a} {a_is} {rel} {b} | there {a_is} {a} {rel} {b} | {rel} {b} {a_is} {a}
  | {a} {rel} {b} {place} | {a} {a_is} {rel} {b} {when} | a view of {a} {rel} {b}
placing: {a} {where} | {where} {a_is} {a} | {a} {a_is} {where} | {place}, {a} {where} | you can
  see {a} {where}
setting: {view} {when} with {a} | {view} with {a} | {a} {place} {when} | {when} {place} there
  {a_is} {a} | a scene {place} {when} with {a} | this is {view} {when}, and there {a_is} {a}
pairing: {a} and {b} | {a} and {b} {place} | {a} with {b} {place} | {a} together with {b} | there
  {a_is} {a} and also {b} | {place} {a_is} {a}, and {b}
listing: {list} {place} | {list} {place} {when} | {place} we see {list} | a scene with {list}
  {place} | {view} {when}: {list} | {when}, {list} can be seen {place}
short: {bare} | {bare} {place} | {bare} {when} | {bare} and {bare_b} | {bare} {where}
""")

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
