"""The description of a rendered scene, and the facts a caption can state about it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

Box = tuple[float, float, float, float]

CATEGORIES: dict[str, frozenset[str]] = {
    "animal": frozenset(
        {
            "dog",
            "cat",
            "horse",
            "cow",
            "sheep",
            "rabbit",
            "elephant",
            "bird",
            "duck",
            "penguin",
            "turtle",
            "butterfly",
            "fish",
            "crab",
            "octopus",
        }
    ),
    "person": frozenset({"man", "woman"}),
    "vehicle": frozenset({"car", "bus", "truck", "tractor", "bicycle"}),
}
"""General nouns and the kinds they cover."""

RELATIONS = ("left of", "right of", "above", "below", "next to", "in front of", "behind", "on")
POSITIONS = ("left", "right", "top", "bottom", "middle")


@dataclass(frozen=True)
class SceneObject:
    """One drawn object.

    Attributes:
        label: its kind.
        colour: name of its main colour (of the clothes, for people).
        size: "small", "medium" or "large", relative to its kind.
        action: what it does, or None.
        box: x1, y1, x2, y2 relative to the image, from 0 to 1, hidden parts included.
        depth: drawing order; objects of greater depth are nearer and may hide others.
        support: index of the object it stands on, or None.
    """

    label: str
    colour: str
    size: str
    action: str | None
    box: Box
    depth: int
    support: int | None = None

    @property
    def centre(self) -> tuple[float, float]:
        """Centre of the box."""
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


@dataclass(frozen=True)
class Doing:
    """All mentioned objects do this action."""

    who: Mention
    action: str


@dataclass(frozen=True)
class Located:
    """All mentioned objects are in this part of the picture."""

    who: Mention
    position: str


@dataclass(frozen=True)
class Related:
    """Every mentioned subject has this relation to every mentioned object."""

    who: Mention
    relation: str
    whom: Mention


@dataclass(frozen=True)
class Setting:
    """The scene's background, light or weather (`aspect`) has this value."""

    aspect: str
    value: str


Fact = Mention | Doing | Located | Related | Setting


def matching(
    record: SceneRecord, noun: str, colour: str | None = None, size: str | None = None
) -> list[SceneObject]:
    """All objects that a noun with these adjectives describes."""
    kinds = CATEGORIES.get(noun, frozenset({noun}))
    return [
        o
        for o in record.objects
        if o.label in kinds and colour in (None, o.colour) and size in (None, o.size)
    ]


def mentioned(record: SceneRecord, who: Mention) -> list[SceneObject]:
    """The objects a mention refers to."""
    return matching(record, who.noun, who.colour, who.size)


def overlap(a: Box, b: Box) -> float:
    """Area of the intersection of two boxes, relative to the smaller box."""
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    smaller = min((a[2] - a[0]) * (a[3] - a[1]), (b[2] - b[0]) * (b[3] - b[1]))
    return max(0.0, width) * max(0.0, height) / smaller


def _gap(a: Box, b: Box) -> float:
    """Distance between two boxes, 0 if they touch."""
    dx = max(a[0] - b[2], b[0] - a[2], 0.0)
    dy = max(a[1] - b[3], b[1] - a[3], 0.0)
    return max(dx, dy)


def related(record: SceneRecord, a: SceneObject, relation: str, b: SceneObject) -> bool:
    """Whether the relation clearly holds, from boxes and depth."""
    dx, dy = b.centre[0] - a.centre[0], b.centre[1] - a.centre[1]
    on = a.support is not None and record.objects[a.support] is b
    beneath = b.support is not None and record.objects[b.support] is a
    hides = overlap(a.box, b.box) > 0.06 and not (on or beneath)
    match relation:
        case "left of":
            return dx > 0.15 and dx > abs(dy)
        case "right of":
            return -dx > 0.15 and -dx > abs(dy)
        case "above":
            return dy > 0.2 and dy > abs(dx) and not on
        case "below":
            return -dy > 0.2 and -dy > abs(dx) and not beneath
        case "next to":
            level = abs(a.box[3] - b.box[3]) < 0.12
            return level and not hides and abs(dx) > 0.08 and _gap(a.box, b.box) < 0.1
        case "in front of":
            return hides and a.depth > b.depth
        case "behind":
            return hides and a.depth < b.depth
        case "on":
            return on
    raise ValueError(f"unknown relation {relation!r}")


def located(item: SceneObject, position: str) -> bool:
    """Whether an object lies in a part of the picture."""
    x, y = item.centre
    match position:
        case "left":
            return x < 0.34
        case "right":
            return x > 0.66
        case "top":
            return y < 0.34
        case "bottom":
            return y > 0.74
        case "middle":
            return abs(x - 0.5) < 0.12
    raise ValueError(f"unknown position {position!r}")


def holds(record: SceneRecord, fact: Fact) -> bool:
    """Whether a fact is true of a scene."""
    match fact:
        case Mention(count=count):
            return len(mentioned(record, fact)) == count
        case Doing(who, action):
            return all(o.action == action for o in mentioned(record, who))
        case Located(who, position):
            return all(located(o, position) for o in mentioned(record, who))
        case Related(who, relation, whom):
            pairs = product(mentioned(record, who), mentioned(record, whom))
            return all(a is not b and related(record, a, relation, b) for a, b in pairs)
        case Setting(aspect, value):
            return bool(getattr(record, aspect) == value)
