# ruff: noqa: E501 - one line per kind keeps the table readable
"""The kinds of object in scenes: how each is drawn, where it appears, its nouns and actions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from training.scenes.drawings import animals, creatures, figures, nature, things, vehicles
from training.scenes.drawings.brush import PALETTE, Brush


@dataclass(frozen=True)
class Kind:
    """One kind of object.

    Attributes:
        draw: draws it on a canvas.
        aspect: width over height.
        height: of a medium-sized one, relative to the scene.
        zones: where it can be, the most natural first: ground, water or air.
        places: backgrounds where it usually appears.
        colours: possible colours.
        nouns: (singular, plural) for each synonym.
        actions: its action in each zone.
        top: height of the surface on which small objects can stand, from 0 (top) to 1, or None.
        lights: lights under which it can appear.
    """

    draw: Callable[[Brush], None]
    aspect: float
    height: float
    zones: tuple[str, ...]
    places: frozenset[str]
    colours: tuple[str, ...]
    nouns: tuple[tuple[str, str], ...]
    actions: dict[str, str]
    top: float | None = None
    lights: tuple[str, ...] = ("day", "dusk", "night")


LAND = "beach forest street mountain desert meadow farm lake"
OPEN = "beach street mountain desert meadow farm lake sky"
ROOMS = "living_room kitchen"
BRIGHT = "red orange yellow green turquoise blue purple pink white black"
PAINT = BRIGHT + " grey brown"
FUR = "brown black white grey orange"


def _kind(
    draw: Callable[[Brush], None],
    aspect: float,
    height: float,
    zones: str,
    places: str,
    colours: str,
    nouns: str,
    actions: str = "",
    top: float | None = None,
    lights: str = "day dusk night",
) -> Kind:
    pairs = [noun.replace("_", " ").split("/") for noun in nouns.split()]
    return Kind(
        draw,
        aspect,
        height,
        tuple(zones.split()),
        frozenset(places.split()),
        tuple(colours.split()),
        tuple((one, many) for one, many in pairs),
        dict(pair.split(":") for pair in actions.split()),
        top,
        tuple(lights.split()),
    )


KINDS: dict[str, Kind] = {
    "dog": _kind(animals.dog, 1.25, 0.24, "ground", LAND + " living_room", FUR, "dog/dogs puppy/puppies hound/hounds", "ground:stand"),
    "cat": _kind(animals.cat, 0.75, 0.25, "ground", "street meadow farm " + ROOMS, FUR, "cat/cats kitten/kittens kitty/kitties", "ground:sit"),
    "horse": _kind(animals.horse, 1.15, 0.36, "ground", "meadow farm desert beach mountain", "brown black white grey", "horse/horses pony/ponies", "ground:stand"),
    "cow": _kind(animals.cow, 1.35, 0.3, "ground", "meadow farm lake", "brown black orange", "cow/cows", "ground:stand"),
    "sheep": _kind(animals.sheep, 1.15, 0.25, "ground", "meadow farm mountain", "white black grey brown pink", "sheep/sheep lamb/lambs", "ground:stand"),
    "rabbit": _kind(animals.rabbit, 0.62, 0.24, "ground", "meadow forest farm mountain", "white brown grey black", "rabbit/rabbits bunny/bunnies", "ground:sit"),
    "elephant": _kind(animals.elephant, 1.3, 0.38, "ground", "desert lake meadow", "grey brown pink blue", "elephant/elephants", "ground:stand"),
    "bird": _kind(creatures.bird, 1.25, 0.17, "air", OPEN, "red yellow blue green brown black white", "bird/birds", "air:fly"),
    "duck": _kind(creatures.duck, 1.15, 0.19, "water ground", "lake beach farm", "yellow white brown green", "duck/ducks duckling/ducklings", "water:swim ground:sit"),
    "penguin": _kind(creatures.penguin, 0.62, 0.28, "ground", "mountain beach", "black blue grey", "penguin/penguins", "ground:stand"),
    "turtle": _kind(creatures.turtle, 1.45, 0.17, "water ground", "beach underwater desert", "green brown blue purple", "turtle/turtles tortoise/tortoises", "ground:crawl water:swim"),
    "butterfly": _kind(creatures.butterfly, 1.15, 0.16, "air", "meadow forest farm lake", "orange yellow blue purple pink red", "butterfly/butterflies", "air:fly"),
    "fish": _kind(creatures.fish, 1.5, 0.17, "water ground", "underwater lake", "orange yellow red blue green purple pink", "fish/fish", "water:swim"),
    "crab": _kind(creatures.crab, 1.5, 0.17, "ground", "beach underwater", "red orange blue", "crab/crabs", "ground:crawl"),
    "octopus": _kind(creatures.octopus, 1.0, 0.26, "water ground", "underwater", "purple red orange pink blue", "octopus/octopuses", "water:swim"),
    "man": _kind(figures.man, 0.46, 0.4, "ground", LAND + " " + ROOMS, BRIGHT, "man/men guy/guys gentleman/gentlemen", "ground:stand"),
    "woman": _kind(figures.woman, 0.48, 0.39, "ground", LAND + " " + ROOMS, BRIGHT, "woman/women lady/ladies", "ground:stand"),
    "snowman": _kind(figures.snowman, 0.66, 0.36, "ground", "mountain", "red green blue orange purple", "snowman/snowmen", "ground:stand"),
    "robot": _kind(figures.robot, 0.66, 0.33, "ground", "street desert " + ROOMS, BRIGHT, "robot/robots android/androids", "ground:stand"),
    "car": _kind(vehicles.car, 1.9, 0.19, "ground", "street desert farm mountain beach", BRIGHT + " grey", "car/cars automobile/automobiles", "ground:park"),
    "bus": _kind(vehicles.bus, 1.8, 0.26, "ground", "street mountain", "red yellow blue green white orange", "bus/buses coach/coaches", "ground:park"),
    "truck": _kind(vehicles.truck, 1.65, 0.28, "ground", "street farm desert", "red blue green orange yellow white purple", "truck/trucks lorry/lorries", "ground:park"),
    "tractor": _kind(vehicles.tractor, 1.25, 0.28, "ground", "farm meadow", "red green blue orange yellow", "tractor/tractors", "ground:park"),
    "bicycle": _kind(vehicles.bicycle, 1.55, 0.24, "ground", "street forest meadow lake beach", BRIGHT, "bicycle/bicycles bike/bikes cycle/cycles", "ground:park"),
    "boat": _kind(vehicles.boat, 0.95, 0.32, "water ground", "beach lake", "red blue white green yellow orange purple", "boat/boats sailboat/sailboats ship/ships", "water:sail"),
    "aeroplane": _kind(vehicles.aeroplane, 1.75, 0.2, "air", OPEN, "white red blue yellow grey green orange", "aeroplane/aeroplanes airplane/airplanes plane/planes aircraft/aircraft", "air:fly"),
    "balloon": _kind(vehicles.balloon, 0.72, 0.32, "air", "meadow mountain desert lake sky beach farm", BRIGHT, "balloon/balloons hot-air_balloon/hot-air_balloons", "air:float"),
    "rocket": _kind(vehicles.rocket, 0.5, 0.34, "ground air", "desert sky", "red blue green orange purple", "rocket/rockets spaceship/spaceships", "air:fly ground:stand"),
    "house": _kind(vehicles.house, 1.0, 0.42, "ground", "meadow mountain lake forest farm beach", "white red yellow blue pink orange brown green", "house/houses cottage/cottages home/homes", "ground:stand"),
    "lighthouse": _kind(vehicles.lighthouse, 0.4, 0.48, "ground", "beach lake", "red blue black green", "lighthouse/lighthouses", "ground:stand"),
    "windmill": _kind(vehicles.windmill, 0.72, 0.44, "ground", "farm meadow lake", "white red brown grey blue", "windmill/windmills mill/mills", "ground:stand"),
    "tree": _kind(nature.tree, 0.85, 0.44, "ground", "meadow farm lake street", "green orange red yellow pink", "tree/trees", "ground:grow"),
    "pine": _kind(nature.pine, 0.68, 0.42, "ground", "mountain forest lake", "green turquoise white", "pine/pines fir/firs conifer/conifers", "ground:grow"),
    "flower": _kind(nature.flower, 0.6, 0.23, "ground", "meadow forest farm kitchen", "red yellow pink purple white blue orange", "flower/flowers blossom/blossoms", "ground:grow"),
    "mushroom": _kind(nature.mushroom, 0.95, 0.18, "ground", "forest meadow", "red brown white orange purple yellow", "mushroom/mushrooms toadstool/toadstools", "ground:grow"),
    "cactus": _kind(nature.cactus, 0.75, 0.32, "ground", "desert living_room", "green turquoise", "cactus/cacti", "ground:grow"),
    "sun": _kind(nature.sun, 1.0, 0.24, "air", OPEN, "yellow orange red", "sun/suns", "air:shine", lights="day dusk"),
    "moon": _kind(nature.moon, 0.92, 0.2, "air", OPEN, "yellow white orange", "moon/moons crescent/crescents", "air:shine", lights="night dusk"),
    "star": _kind(nature.star, 1.0, 0.15, "air", OPEN, "yellow white red blue", "star/stars", "air:shine", lights="night dusk"),
    "ball": _kind(things.ball, 1.0, 0.14, "ground", LAND + " " + ROOMS, BRIGHT, "ball/balls", "ground:lie"),
    "kite": _kind(things.kite, 0.75, 0.28, "air", "beach meadow farm sky lake", BRIGHT, "kite/kites", "air:fly"),
    "umbrella": _kind(things.umbrella, 1.0, 0.28, "ground", "beach street", BRIGHT, "umbrella/umbrellas parasol/parasols", ""),
    "chair": _kind(things.chair, 0.72, 0.3, "ground", "living_room kitchen meadow beach", PAINT, "chair/chairs seat/seats", "", 0.5),
    "table": _kind(things.table, 1.6, 0.25, "ground", "living_room kitchen", "brown white black red blue green yellow", "table/tables desk/desks", "", 0.07),
    "bench": _kind(things.bench, 1.7, 0.24, "ground", "street lake meadow beach", "brown green red blue white", "bench/benches", "", 0.5),
    "sofa": _kind(things.sofa, 1.9, 0.27, "ground", "living_room", BRIGHT + " grey brown", "sofa/sofas couch/couches", "", 0.66),
    "lamp": _kind(things.lamp, 0.68, 0.24, "ground", ROOMS, "yellow red green blue white orange pink purple", "lamp/lamps light/lights", ""),
    "cup": _kind(things.cup, 0.9, 0.16, "ground", ROOMS, BRIGHT, "cup/cups mug/mugs", ""),
    "teapot": _kind(things.teapot, 1.25, 0.17, "ground", ROOMS, BRIGHT, "teapot/teapots kettle/kettles", ""),
    "book": _kind(things.book, 0.8, 0.17, "ground", ROOMS, PAINT, "book/books novel/novels", ""),
    "clock": _kind(things.clock, 1.0, 0.17, "air ground", ROOMS, PAINT, "clock/clocks", "air:hang"),
    "key": _kind(things.key, 1.9, 0.11, "ground", ROOMS + " street", "yellow grey brown red blue", "key/keys", "ground:lie"),
    "guitar": _kind(things.guitar, 0.46, 0.36, "ground", "living_room beach", "brown red blue black yellow orange", "guitar/guitars", ""),
    "hat": _kind(things.hat, 1.4, 0.14, "ground", "living_room beach desert meadow", BRIGHT + " brown", "hat/hats", "ground:lie"),
    "tent": _kind(things.tent, 1.4, 0.3, "ground", "forest mountain meadow lake desert", "orange red blue green yellow purple", "tent/tents", ""),
    "gift": _kind(things.gift, 0.95, 0.2, "ground", ROOMS + " mountain", BRIGHT, "gift/gifts present/presents parcel/parcels", ""),
    "bucket": _kind(things.bucket, 0.95, 0.17, "ground", "beach farm kitchen", BRIGHT + " grey", "bucket/buckets pail/pails", ""),
    "candle": _kind(things.candle, 0.42, 0.2, "ground", ROOMS, "white red yellow blue green pink purple", "candle/candles", "ground:burn"),
}  # fmt: skip

SMALL = (
    "cup",
    "book",
    "lamp",
    "clock",
    "hat",
    "cat",
    "teapot",
    "gift",
    "candle",
    "ball",
    "flower",
    "key",
)
"""Kinds that can stand on a table, chair, bench or sofa."""

assert all(set(kind.colours) <= set(PALETTE) for kind in KINDS.values())
