"""The words of the captions: synonyms for everything a fact can mention, and sentence patterns."""

from __future__ import annotations

from training.scenes.drawings.brush import PALETTE
from training.scenes.kinds import KINDS

NOUNS: dict[str, tuple[tuple[str, str], ...]] = {name: kind.nouns for name, kind in KINDS.items()}
NOUNS |= {
    "animal": (("animal", "animals"), ("creature", "creatures")),
    "person": (("person", "people"), ("human", "humans")),
    "vehicle": (("vehicle", "vehicles"),),
}
COLOURS: dict[str, tuple[str, ...]] = {name: (name,) for name in PALETTE} | {
    "red": ("red", "red", "red", "scarlet"),
    "yellow": ("yellow", "yellow", "yellow", "golden"),
    "turquoise": ("turquoise", "turquoise", "teal"),
    "purple": ("purple", "purple", "violet"),
    "grey": ("grey", "gray"),
    "brown": ("brown", "brown", "brown", "chestnut"),
}
SIZES = {"small": ("small", "little", "tiny"), "large": ("large", "big", "huge")}
COUNTS: dict[int, tuple[str, ...]] = {
    2: ("two", "two", "a pair of", "a couple of", "2"),
    3: ("three", "three", "several", "some", "3"),
    4: ("four", "four", "several", "a group of", "4"),
    5: ("five", "several", "many", "5"),
    6: ("six", "several", "many", "6"),
    7: ("seven", "several", "many", "7"),
}
CLOTHES = {
    "man": (("shirt", "shirts"), ("sweater", "sweaters")),
    "woman": (("dress", "dresses"), ("gown", "gowns")),
}
RELATIONS: dict[str, tuple[str, ...]] = {
    "left of": ("to the left of", "left of", "on the left of"),
    "right of": ("to the right of", "right of", "on the right of"),
    "above": ("above", "over", "higher than", "up above"),
    "below": ("below", "under", "beneath", "lower than"),
    "next to": ("next to", "beside", "near", "close to", "by"),
    "in front of": ("in front of", "partly hiding", "before"),
    "behind": ("behind", "partly hidden by", "in back of"),
    "on": ("on", "on top of", "resting on", "placed on"),
}
POSITIONS: dict[str, tuple[str, ...]] = {
    "left": ("on the left", "on the left side", "at the left of the picture"),
    "right": ("on the right", "on the right side", "at the right of the picture"),
    "top": ("at the top", "high up in the picture", "in the upper part of the image"),
    "bottom": ("at the bottom", "in the lower part of the image", "low in the picture"),
    "middle": ("in the middle", "in the centre", "in the center of the picture"),
}
ACTIONS: dict[str, tuple[str, ...]] = {
    "stand": ("standing", "standing still", "waiting"),
    "sit": ("sitting", "seated", "resting"),
    "fly": ("flying", "soaring", "in flight"),
    "swim": ("swimming", "paddling"),
    "sail": ("sailing", "floating"),
    "float": ("floating", "drifting", "hovering"),
    "crawl": ("crawling", "creeping"),
    "park": ("parked", "standing still"),
    "grow": ("growing", "rooted"),
    "shine": ("shining", "glowing"),
    "lie": ("lying", "lying around"),
    "hang": ("hanging",),
    "burn": ("burning", "lit"),
}
PLACES: dict[str, tuple[str, ...]] = {
    "beach": ("on the beach", "at the beach", "by the sea", "at the seaside", "on the sandy shore"),
    "forest": ("in the forest", "in the woods", "in a shady forest", "deep in the woodland"),
    "street": (
        "on the street",
        "in the city",
        "on a road",
        "in town",
        "in front of tall buildings",
    ),
    "mountain": ("in the mountains", "in the snow", "on a snowy slope", "below snowy peaks"),
    "desert": ("in the desert", "among the dunes", "in a dry desert", "in front of sand dunes"),
    "meadow": ("in a meadow", "on the grass", "in a green field", "in the countryside"),
    "lake": ("by the lake", "at the lake", "at the lakeside", "near the water"),
    "farm": ("on a farm", "on a ploughed field", "by the fence", "on farmland"),
    "living_room": ("in the living room", "in the lounge", "at home", "indoors", "inside a room"),
    "kitchen": ("in the kitchen", "indoors", "in a tiled kitchen"),
    "underwater": ("under water", "underwater", "deep in the sea", "beneath the waves"),
    "sky": ("in the sky", "high in the sky", "above the clouds", "up in the air"),
}
VIEWS: dict[str, tuple[str, ...]] = {
    "beach": ("a beach", "a sandy beach", "the seaside", "the sea shore"),
    "forest": ("a forest", "the woods", "woodland"),
    "street": ("a city street", "a street", "a town"),
    "mountain": ("snowy mountains", "a winter landscape", "a snowy landscape"),
    "desert": ("a desert", "sand dunes", "a dry landscape"),
    "meadow": ("a meadow", "a green field", "grassy hills"),
    "lake": ("a lake", "a calm lake", "a lake shore"),
    "farm": ("a farm", "farmland", "a ploughed field"),
    "living_room": ("a living room", "a lounge", "a room"),
    "kitchen": ("a kitchen", "a tiled kitchen"),
    "underwater": ("an underwater scene", "the sea floor", "the bottom of the sea"),
    "sky": ("the sky", "clouds and sky", "a sky full of clouds"),
}
LIGHTS: dict[str, tuple[str, ...]] = {
    "day": ("during the day", "in daylight", "by day", "in bright light"),
    "dusk": ("at dusk", "at sunset", "in the evening", "in warm evening light", "at twilight"),
    "night": ("at night", "in the dark", "after dark", "by night"),
}
WEATHERS: dict[str, tuple[str, ...]] = {
    "rain": ("in the rain", "on a rainy day", "in wet weather", "while it rains"),
    "snow": ("in falling snow", "while it snows", "on a cold winter day"),
    "fog": ("in the fog", "in thick mist", "on a foggy day", "on a misty morning"),
}

# Slots: {a} {b} noun phrases; {a_is} {b_is} "is" or "are"; {a_does} {b_does} actions; {rel} the
# relation of a to b; {where} the part of the picture a is in; {place} {view} the background; {when}
# light or weather; {list} all objects; {bare} {bare_b} noun phrases without article.
SINGLE = (
    "{a}",
    "there {a_is} {a}",
    "a photo of {a}",
    "a picture of {a}",
    "an image showing {a}",
    "we can see {a}",
    "{a} {place}",
    "{place} there {a_is} {a}",
    "here {a_is} {a} {place}",
)
ACTING = (
    "{a} {a_does}",
    "{a} {a_does} {place}",
    "{a} {a_is} {a_does} {place}",
    "{a} {a_does} {place} {when}",
    "{when}, {a} {a_is} {a_does}",
)
RELATING = (
    "{a} {rel} {b}",
    "{a} {a_is} {rel} {b}",
    "there {a_is} {a} {rel} {b}",
    "{rel} {b} {a_is} {a}",
    "{a} {rel} {b} {place}",
    "{a} {a_is} {rel} {b} {when}",
    "a view of {a} {rel} {b}",
)
PLACING = (
    "{a} {where}",
    "{where} {a_is} {a}",
    "{a} {a_is} {where}",
    "{place}, {a} {where}",
    "you can see {a} {where}",
)
SETTING = (
    "{view} {when} with {a}",
    "{view} with {a}",
    "{a} {place} {when}",
    "{when} {place} there {a_is} {a}",
    "a scene {place} {when} with {a}",
    "this is {view} {when}, and there {a_is} {a}",
)
PAIRING = (
    "{a} and {b}",
    "{a} and {b} {place}",
    "{a} with {b} {place}",
    "{a} together with {b}",
    "there {a_is} {a} and also {b}",
    "{place} {a_is} {a}, and {b}",
)
LISTING = (
    "{list} {place}",
    "{list} {place} {when}",
    "{place} we see {list}",
    "a scene with {list} {place}",
    "{view} {when}: {list}",
    "{when}, {list} can be seen {place}",
)
SHORT = ("{bare}", "{bare} {place}", "{bare} {when}", "{bare} and {bare_b}", "{bare} {where}")
