# ruff: noqa: E501 - one line per kind keeps the table readable
"""What scenes consist of: kinds of object, how each is drawn, and the backgrounds.

Drawings are written as steps with `;` between, in hundredths of the canvas, x to the right and y
down: `poly 50 3 99 43 1 43 dark`, with `,` between several of one colour. The shapes are poly, blob
(a smooth curve), rect, oval, disc, ring, line, arc and eye, the last number of a line is its width;
`at` keeps points for a shape that names none.

Values: `up=2~12` names a random one of this range (names have one letter, colours more); `x+.5*w-3`
sums and products; `84±8` varies by 8 %; `12|56` is one of them; `5<e<95` is limited. Colours: a name
of `COLOURS` or `colour`, the object's own, with its `dark` and `light`; #ffffff; `dark*70` shaded;
`half:ink/paper` one of two at random, `640:paper/ink` the first if the object's colour is darker.

Steps in brackets: `mirror(…)` draws them on the left and the right, `9(…)` or `1~3(…)` several
times with the number in i and the share done in u, `maybe 60(…)` with this probability, `turn u(…)`
with the cosine and sine of a share of a full turn in c and s.
"""

from __future__ import annotations

from dataclasses import dataclass

RGB = tuple[int, int, int]

PALETTE: dict[str, RGB] = {
    "red": (212, 42, 42), "orange": (242, 132, 34), "yellow": (247, 212, 58),
    "green": (66, 158, 66), "turquoise": (44, 190, 186), "blue": (44, 96, 212),
    "purple": (132, 66, 176), "pink": (246, 148, 188), "brown": (134, 84, 46),
    "black": (42, 42, 48), "grey": (142, 144, 150), "white": (244, 244, 240),
}  # fmt: skip
"""The colours that captions name."""

COLOURS: dict[str, RGB] = {
    "ink": (36, 32, 40), "nose": (236, 140, 150), "beak": (244, 160, 40), "leaf": (74, 146, 66),
    "glass": (176, 216, 236), "steel": (196, 200, 206), "glow": (255, 238, 150),
    "wood": (150, 104, 62), "bark": (112, 76, 48), "paper": (250, 246, 234),
}  # fmt: skip


def _table(text: str) -> dict[str, str]:
    """Texts by name; further lines of a text begin with a blank."""
    entries = (entry.partition(":") for entry in text.strip().replace("\n ", "").split("\n"))
    return {name: steps.strip() for name, _, steps in entries}


@dataclass(frozen=True)
class Kind:
    """One kind of object."""

    aspect: float  # width over height
    height: float  # of a medium-sized one, relative to the scene
    zones: list[str]  # where it can be, the most natural first: ground, water or air
    places: frozenset[str]  # backgrounds where it usually appears
    colours: list[str]  # possible colours
    nouns: tuple[tuple[str, str], ...]  # (singular, plural) for each synonym
    actions: dict[str, str]  # its action in each zone
    # Height of the surface on which small objects can stand, from 0 (top) to 1, or None.
    top: float | None
    lights: list[str]  # lights under which it can appear


LAND = "beach forest street mountain desert meadow farm lake"
OPEN = "beach street mountain desert meadow farm lake sky"
ROOMS = "living_room kitchen"
BRIGHT = "red orange yellow green turquoise blue purple pink white black"
PAINT = BRIGHT + " grey brown"
FUR = "brown black white grey orange"


def _kind(
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
    doing = dict(pair.split(":") for pair in actions.split())
    words = zones.split(), frozenset(places.split()), colours.split()
    forms = tuple((one, many) for one, many in pairs)
    return Kind(aspect, height, *words, forms, doing, top, lights.split())


KINDS: dict[str, Kind] = {
    "dog": _kind(1.25, 0.24, "ground", LAND + " living_room", FUR, "dog/dogs puppy/puppies hound/hounds", "ground:stand"),
    "cat": _kind(0.75, 0.25, "ground", "street meadow farm " + ROOMS, FUR, "cat/cats kitten/kittens kitty/kitties", "ground:sit"),
    "horse": _kind(1.15, 0.36, "ground", "meadow farm desert beach mountain", "brown black white grey", "horse/horses pony/ponies", "ground:stand"),
    "cow": _kind(1.35, 0.3, "ground", "meadow farm lake", "brown black orange", "cow/cows", "ground:stand"),
    "sheep": _kind(1.15, 0.25, "ground", "meadow farm mountain", "white black grey brown pink", "sheep/sheep lamb/lambs", "ground:stand"),
    "rabbit": _kind(0.62, 0.24, "ground", "meadow forest farm mountain", "white brown grey black", "rabbit/rabbits bunny/bunnies", "ground:sit"),
    "elephant": _kind(1.3, 0.38, "ground", "desert lake meadow", "grey brown pink blue", "elephant/elephants", "ground:stand"),
    "bird": _kind(1.25, 0.17, "air", OPEN, "red yellow blue green brown black white", "bird/birds", "air:fly"),
    "duck": _kind(1.15, 0.19, "water ground", "lake beach farm", "yellow white brown green", "duck/ducks duckling/ducklings", "water:swim ground:sit"),
    "penguin": _kind(0.62, 0.28, "ground", "mountain beach", "black blue grey", "penguin/penguins", "ground:stand"),
    "turtle": _kind(1.45, 0.17, "water ground", "beach underwater desert", "green brown blue purple", "turtle/turtles tortoise/tortoises", "ground:crawl water:swim"),
    "butterfly": _kind(1.15, 0.16, "air", "meadow forest farm lake", "orange yellow blue purple pink red", "butterfly/butterflies", "air:fly"),
    "fish": _kind(1.5, 0.17, "water ground", "underwater lake", "orange yellow red blue green purple pink", "fish/fish", "water:swim"),
    "crab": _kind(1.5, 0.17, "ground", "beach underwater", "red orange blue", "crab/crabs", "ground:crawl"),
    "octopus": _kind(1.0, 0.26, "water ground", "underwater", "purple red orange pink blue", "octopus/octopuses", "water:swim"),
    "man": _kind(0.46, 0.4, "ground", LAND + " " + ROOMS, BRIGHT, "man/men guy/guys gentleman/gentlemen", "ground:stand"),
    "woman": _kind(0.48, 0.39, "ground", LAND + " " + ROOMS, BRIGHT, "woman/women lady/ladies", "ground:stand"),
    "snowman": _kind(0.66, 0.36, "ground", "mountain", "red green blue orange purple", "snowman/snowmen", "ground:stand"),
    "robot": _kind(0.66, 0.33, "ground", "street desert " + ROOMS, BRIGHT, "robot/robots android/androids", "ground:stand"),
    "car": _kind(1.9, 0.19, "ground", "street desert farm mountain beach", BRIGHT + " grey", "car/cars automobile/automobiles", "ground:park"),
    "bus": _kind(1.8, 0.26, "ground", "street mountain", "red yellow blue green white orange", "bus/buses coach/coaches", "ground:park"),
    "truck": _kind(1.65, 0.28, "ground", "street farm desert", "red blue green orange yellow white purple", "truck/trucks lorry/lorries", "ground:park"),
    "tractor": _kind(1.25, 0.28, "ground", "farm meadow", "red green blue orange yellow", "tractor/tractors", "ground:park"),
    "bicycle": _kind(1.55, 0.24, "ground", "street forest meadow lake beach", BRIGHT, "bicycle/bicycles bike/bikes cycle/cycles", "ground:park"),
    "boat": _kind(0.95, 0.32, "water ground", "beach lake", "red blue white green yellow orange purple", "boat/boats sailboat/sailboats ship/ships", "water:sail"),
    "aeroplane": _kind(1.75, 0.2, "air", OPEN, "white red blue yellow grey green orange", "aeroplane/aeroplanes airplane/airplanes plane/planes aircraft/aircraft", "air:fly"),
    "balloon": _kind(0.72, 0.32, "air", "meadow mountain desert lake sky beach farm", BRIGHT, "balloon/balloons hot-air_balloon/hot-air_balloons", "air:float"),
    "rocket": _kind(0.5, 0.34, "ground air", "desert sky", "red blue green orange purple", "rocket/rockets spaceship/spaceships", "air:fly ground:stand"),
    "house": _kind(1.0, 0.42, "ground", "meadow mountain lake forest farm beach", "white red yellow blue pink orange brown green", "house/houses cottage/cottages home/homes", "ground:stand"),
    "lighthouse": _kind(0.4, 0.48, "ground", "beach lake", "red blue black green", "lighthouse/lighthouses", "ground:stand"),
    "windmill": _kind(0.72, 0.44, "ground", "farm meadow lake", "white red brown grey blue", "windmill/windmills mill/mills", "ground:stand"),
    "tree": _kind(0.85, 0.44, "ground", "meadow farm lake street", "green orange red yellow pink", "tree/trees", "ground:grow"),
    "pine": _kind(0.68, 0.42, "ground", "mountain forest lake", "green turquoise white", "pine/pines fir/firs conifer/conifers", "ground:grow"),
    "flower": _kind(0.6, 0.23, "ground", "meadow forest farm kitchen", "red yellow pink purple white blue orange", "flower/flowers blossom/blossoms", "ground:grow"),
    "mushroom": _kind(0.95, 0.18, "ground", "forest meadow", "red brown white orange purple yellow", "mushroom/mushrooms toadstool/toadstools", "ground:grow"),
    "cactus": _kind(0.75, 0.32, "ground", "desert living_room", "green turquoise", "cactus/cacti", "ground:grow"),
    "sun": _kind(1.0, 0.24, "air", OPEN, "yellow orange red", "sun/suns", "air:shine", lights="day dusk"),
    "moon": _kind(0.92, 0.2, "air", OPEN, "yellow white orange", "moon/moons crescent/crescents", "air:shine", lights="night dusk"),
    "star": _kind(1.0, 0.15, "air", OPEN, "yellow white red blue", "star/stars", "air:shine", lights="night dusk"),
    "ball": _kind(1.0, 0.14, "ground", LAND + " " + ROOMS, BRIGHT, "ball/balls", "ground:lie"),
    "kite": _kind(0.75, 0.28, "air", "beach meadow farm sky lake", BRIGHT, "kite/kites", "air:fly"),
    "umbrella": _kind(1.0, 0.28, "ground", "beach street", BRIGHT, "umbrella/umbrellas parasol/parasols", ""),
    "chair": _kind(0.72, 0.3, "ground", "living_room kitchen meadow beach", PAINT, "chair/chairs seat/seats", "", 0.5),
    "table": _kind(1.6, 0.25, "ground", "living_room kitchen", "brown white black red blue green yellow", "table/tables desk/desks", "", 0.07),
    "bench": _kind(1.7, 0.24, "ground", "street lake meadow beach", "brown green red blue white", "bench/benches", "", 0.5),
    "sofa": _kind(1.9, 0.27, "ground", "living_room", BRIGHT + " grey brown", "sofa/sofas couch/couches", "", 0.66),
    "lamp": _kind(0.68, 0.24, "ground", ROOMS, "yellow red green blue white orange pink purple", "lamp/lamps light/lights", ""),
    "cup": _kind(0.9, 0.16, "ground", ROOMS, BRIGHT, "cup/cups mug/mugs", ""),
    "teapot": _kind(1.25, 0.17, "ground", ROOMS, BRIGHT, "teapot/teapots kettle/kettles", ""),
    "book": _kind(0.8, 0.17, "ground", ROOMS, PAINT, "book/books novel/novels", ""),
    "clock": _kind(1.0, 0.17, "air ground", ROOMS, PAINT, "clock/clocks", "air:hang"),
    "key": _kind(1.9, 0.11, "ground", ROOMS + " street", "yellow grey brown red blue", "key/keys", "ground:lie"),
    "guitar": _kind(0.46, 0.36, "ground", "living_room beach", "brown red blue black yellow orange", "guitar/guitars", ""),
    "hat": _kind(1.4, 0.14, "ground", "living_room beach desert meadow", BRIGHT + " brown", "hat/hats", "ground:lie"),
    "tent": _kind(1.4, 0.3, "ground", "forest mountain meadow lake desert", "orange red blue green yellow purple", "tent/tents", ""),
    "gift": _kind(0.95, 0.2, "ground", ROOMS + " mountain", BRIGHT, "gift/gifts present/presents parcel/parcels", ""),
    "bucket": _kind(0.95, 0.17, "ground", "beach farm kitchen", BRIGHT + " grey", "bucket/buckets pail/pails", ""),
    "candle": _kind(0.42, 0.2, "ground", ROOMS, "white red yellow blue green pink purple", "candle/candles", "ground:burn"),
}  # fmt: skip

SMALL = [
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
]
"""Kinds that can stand on a table, chair, bench or sofa."""

INDOORS = frozenset({"living_room", "kitchen"})
NO_WEATHER = INDOORS | {"underwater", "sky"}

DRAWINGS = _table("""
dog: line 16 50 8 40 5 8~30 7; line 30 60 27~33 97 10 colour; line 22 60 19~25 97 10 dark; line 68
  60 65~71 97 10 colour; line 60 60 57~63 97 10 dark; blob 14 50 30 40 60 42 74 50 66 72 40 70 20
  70, 60 50 62 24 74 12 84 22 78 56, 66 16 78 8 88 20 99 26 97 38 78 42; blob 66 12 73 14 74 34 68
  44 62 32 dark; disc 97.5 27 4 ink; eye 82 20 3.5; line 62 50 76 48 5 half:#ce3636/ink
cat: arc 78 78 18 20 -100 90 7 dark; blob 50 34 72 55 80 90 50 98 20 90 28 55; oval 50 72 14 20
  light; mirror(oval 62 94 10 5 light); mirror(poly 82 2 58 14 83 26; poly 78 8 66 15 78 22 nose);
  oval 50 28 35±6 19; mirror(oval 65 26 6.5 4.5 #96d250; oval 65 26 2 4 ink; line 64 34 96 32 .8,
  64 34 96 36 .8 dark*70); poly 45 32 55 32 50 36 nose
horse: blob 12 40 2 50 4 76 10 70 17 48 colour*45; line 26 55 23~29 97 7 colour; line 18 55 15~21
  97 7 dark; line 66 55 63~69 97 7 colour; line 58 55 55~61 97 7 dark; blob 10 44 30 36 60 36 72
  44 66 62 40 62 16 60, 54 42 68 12 78 6 84 16 74 50, 74 6 82 6 99 24 96 32 88 32 76 20; blob 55
  36 62 14 74 2 76 10 68 30 colour*45; poly 75 8 77 0 81 7; eye 83 14 2.4; rect 15.5 94 22.5 99,
  22.5 94 29.5 99, 55.5 94 62.5 99, 62.5 94 69.5 99 colour*45
cow: plain=half:#f6f2ea/light; line 8 34 3 50 4 66 3.5 dark; line 22 60 22 96 10 plain; line 14 60
  14 96 10 plain*80; line 64 60 64 96 10 plain; line 56 60 56 96 10 plain*80; oval 30 72 6 7 nose;
  rect 6 28 72 72 16 plain; blob 10 42 20 30±12 30 42 20 54±12, 34 50 46 34±12 58 50 46 66±12, 58
  36 64 29±12 70 36 64 43±12 colour; line 74 18 71 6 5, 90 18 93 6 5 #ecdeb4; oval 68 25 6 6, 95
  25 4.5 6 dark; rect 71 15 92 52 10 colour; oval 81.5 46 11.5 10 nose; eye 77 28 4, 86 28 4
sheep: face=301:#d6beaa/#3a3234; line 26 65 26 97 7, 36 65 36 97 7, 58 65 58 97 7, 68 65 68 97 7
  face; 11(turn u-1.591549~u+1.591549(disc 45+.28*c 48+.22*s 15)); oval 45 48 30 26; oval 74 28 8
  5 face; blob 76 22 88 20 97 42 90 52 78 42 face; disc 80 20 9; eye 87 32 3.5
rabbit: y=2~14; blob 25 32 25-y 4 45-y 4 45 32; line 35 26 35-y 8 4 nose; y=2~14; blob 55 32 y+55
  4 y+75 4 75 32; line 65 26 y+65 8 4 nose; disc 86 84 8 light; oval 50 76 36 22; oval 50 78 20 15
  light; oval 50 40 30 17; mirror(oval 70 95 15 4.5 light; eye 63 38 2.8); oval 50 43 5 2.2 nose;
  rect 46 46 54 51 #fcfcfa
elephant: line 7 40 2 62 3 dark; line 26 60 26 93 15 colour; line 16 60 16 93 15 dark; line 60 60
  60 93 15 colour; line 50 60 50 93 15 dark; blob 4 42 22 18 52 16 68 40 60 72 14 72, 84 30 95 50
  94 80 99 88 90 92 85 78 80 50; oval 74 34 17 26; line 82 55 90 64 5 #faf4e0; blob 68 14 52 16 46
  38 56 56 68 46 dark; eye 80 28 3.2
bird: x=2~12; poly 24 55 0 50 2 62 6 72 26 66 dark; blob 46 50 50 x 62 x+4 66 50 dark; blob 18 60
  40 46 68 44 82 56 62 78 36 76; oval 56 68 16 8 light; disc 78 48 15; poly 88 42 100 50 87 56
  beak; blob 32 56 22 x+6 36 x 56 54 46 66 dark; eye 81 45 3.5
duck: blob 2 50 20 60 50 56 72 60 76 82 50 97 18 90, 55 70 58 36 74 36 76 70; poly 82 20 99 26 98
  34 82 36 beak; disc 70 25 22; blob 16 66 40 64 58 72 40 86 22 82 dark; eye 76 20 4.5
penguin: mirror(oval 68 95 16 4.5 beak; blob 78 36 86~96 64 76 62); blob 50 2 74 16 84 60 70 94 30
  94 16 60 26 16; blob 50 30 70 50 66 86 34 86 30 50 #f8f8f6; mirror(disc 63 19 6.5 #f8f8f6; eye
  62 19 3); poly 40 23 60 23 50 31 beak
turtle: poly 6 76 0 86 16 86 #96b45a; oval 24 87 9 11, 64 87 9 11 #96b45a; line 74 72 86 50 20
  #96b45a; oval 88 44 11 17 #96b45a; blob 6 82 10 50 30 14 54 14 74 50 78 82; blob 19 54 26 34 33
  54 26 70, 37 54 44 34 51 54 44 70, 53 54 60 34 67 54 60 70 dark; eye 91 40 4.5
butterfly: mirror(blob 53 55 70 50 90 70 84 94 64 90 dark; blob 53 50 62 12 90 4 99 30 80 56; disc
  82 24 8±12, 74 74 6±12 light; line 51 20 60 3 2 ink); oval 50 52 3.5 34 ink
fish: poly 28 50 0 8~20 8 50 0 88 dark; blob 40 28 50 2 68 10 70 28 dark; blob 18 50 42 18 74 18
  98 50 74 84 42 84; blob 44 24 52 22 56 50 52 80 44 78 48 50 light; poly 66 56 54 76 70 70 dark;
  eye 84 42 7; line 88 64 95 58 3 ink
crab: mirror(line 70 57 90 62 94 76 5, 70 67 90 72 94 86 5, 70 77 90 82 94 96 5 dark; y=16~30;
  line 74 55 88 y+16 8; disc 88 y 16; poly 88 y-2 84 y-18 94 y-18 dark; line 58 50 60 24 5); oval
  50 64 29 26; mirror(eye 60 24 7); arc 50 64 10 10 20 160 3.5 dark
octopus: 3(w=-8~8; x=25.6*i+18; e=5<1.4*x-20+w<95; line 16*i+30 50 x 72 x-w 84 e 95 8.5 colour;
  w=-8~8; x=25.6*i+30.8; e=5<1.4*x-20+w<95; line 16*i+38 50 x 72 x-w 84 e 95 8.5 dark); blob 50 2
  78 14 82 42 68 64 32 64 18 42 22 14; mirror(eye 63 36 6.5); arc 50 48 8 6 20 160 2.5 dark
man: skin=#fad6b4|#e2ac7e|#b0764e|#784e34; hair=#342620|#784824|#e2b860|#b04a24|#3c383c;
  trousers=#3a405c|#544a3e|#46484c; mirror(line 62 55 62~74 93 9 trousers; oval 70 96.5 13 3 ink);
  z=56|56|12; line 30 30 10 16+.5*z 6.5; line 10 16+.5*z 6 z 5 skin; line 70 30 90 44 6.5; line 90
  44 94 56 5 skin; rect 27 23.5 73 60 5 colour; line 50 26 50 58 1 dark; disc 50 13 10.5 skin;
  blob 26 13 34 2 66 2 74 13 60 8 40 8 hair; mirror(disc 58 14 1.2 ink); arc 50 16.5 8 2 20 160 1
  #b44646
woman: skin=#fad6b4|#e2ac7e|#b0764e|#784e34; hair=#342620|#784824|#e2b860|#b04a24|#3c383c; blob 26
  10 50 0 74 10 80 34 50 30 20 34 hair; mirror(line 62 75 63 93 5 skin; oval 66 96.5 10 2.8 dark);
  x=55|55|12; line 30 30 10 43.5 6.5; line 10 43.5 6 55 5 skin; line 70 30 90 16+.5*x 6.5; line 90
  16+.5*x 94 x 5 skin; poly 32 24 68 24 64 44 90 80 10 80 36 44; line 35 44 65 44 3 dark; disc 50
  13 10.5 skin; blob 26 13 34 2 66 2 74 13 60 8 40 8 hair; mirror(disc 58 14 1.2 ink); arc 50 16.5
  8 2 20 160 1 #b44646
snowman: mirror(line 70 50 97 30~50 2 #60422c); oval 50 80 36 19, 50 50 27 16, 50 26 20 13
  #f6f8fc; rect 26 12 74 16, 34 1 66 14 ink; line 32 38 68 38 6, 62 39 66 54 6; mirror(disc 58 23
  1.8 ink); poly 48 26 72 29 48 31 #f08228; disc 50 50 1.6, 50 58 1.6 ink
robot: line 50 12 50 4 2 #b0b6be; disc 50 3.5 3 #e6463c; mirror(line 80 46 93 50~70 7 #b0b6be;
  rect 59 76 77 92 #b0b6be; rect 56 90 84 99 dark); rect 20 38 80 78 4, 26 10 74 36 5 colour;
  mirror(disc 62 20 5 #fcf096; disc 62 20 2 ink); rect 38 28 62 32 #e6e6e8; rect 32 46 68 62
  light; disc 40 69 2.2, 50 69 2.2, 60 69 2.2 #fadc5a
car: x=14~26; poly x 50 x+10 10 62 10 78 50; poly x+6 48 x+13 18 44 18 44 48, 48 48 48 18 60 18 71
  48 glass; rect 1 46 99 82 14 colour; line 46 50 46 78 2 dark; rect 93 54 98.5 64 glow; rect 1.5
  54 5 64 #dc3c32; mirror(disc 77 81 18 ink; disc 77 81 9 steel)
bus: rect 1 6 99 86 10 colour; rect 6 17 19 46, 21.5 17 34.5 46, 37 17 50 46, 52.5 17 65.5 46, 68
  17 81 46, 84 17 97 80 glass; rect 1 55 83 62 light; rect 95 70 99 78 glow; disc 22 85 14 ink;
  disc 22 85 7 steel; disc 73 85 14 ink; disc 73 85 7 steel
truck: rect 4 72 97 82 colour*50; rect 1 6 64 74 #e8e4da; rect 6 30 59 46; poly 66 20 85 20 97 50
  99 78 66 78; poly 72 27 83 27 91 48 72 48 glass; rect 94 60 98.5 68 glow; disc 16 84 14 ink;
  disc 16 84 7 steel; disc 32 84 14 ink; disc 32 84 7 steel; disc 80 84 14 ink; disc 80 84 7 steel
tractor: rect 14 4 54 12 dark; rect 18 10 50 50 glass; line 78 10 78 40 5 ink; rect 14 46 58 76 4,
  50 38 97 74 6 colour; rect 90 44 96.5 54 glow; disc 27 70 28 ink; disc 27 70 15.4 #eec846; disc
  82 80 18 ink; disc 82 80 9.9 #eec846
bicycle: ring 23.5 66 33 4.5 ink; 4(turn 12.5*i~12.5*i+4.774648(line 23.5-.2*c 66-.3*s 23.5+.2*c
  66+.3*s 1 #96989c)); ring 76.5 66 33 4.5 ink; 4(turn 12.5*i~12.5*i+4.774648(line 76.5-.2*c
  66-.3*s 76.5+.2*c 66+.3*s 1 #96989c)); line 23.5 66 46 68 70 30 37 32 46 68 5.5, 23.5 66 37 32
  34 20 5.5, 76.5 66 68 16 77 10 5.5; line 27 18 41 18 7.5 ink; disc 46 68 7 dark
boat: line 48 2 48 76 2.5 wood; poly 45 6 45 66 8 66 light; poly 52 12 52 66 84±8 66, 2 72 98 72
  82 97 18 97; line 10 80 90 80 3 #f8f6ee
aeroplane: poly 2 8 14 8 26 42 10 46, 50 44 36 10 46 10 66 42 dark; blob 2 40 30 38 72 36 98 52 76
  66 30 64 8 52; poly 80 40 92 46 84 50 78 48 glass; disc 30 47 3.5, 39 47 3.5, 48 47 3.5, 57 47
  3.5, 66 47 3.5 glass; poly 42 55 66 55 36 94 26 92 light
balloon: mirror(line 67.6 64 58 86 1.2 wood); rect 39 84 61 98 wood; blob 50 1 82 10 97 34 80 58
  60 74 40 74 20 58 3 34 18 10; mirror(blob 56.9 3 73 34 59.2 72 70.7 50 84.5 30 600:light/dark)
rocket: blob 36 80 50 84 64 80 50 95±4 #fcb432; mirror(poly 70 50 96 84 70 78 dark); blob 50 1 70
  20 74 50 66 82 34 82 26 50 30 20 #ececee; poly 50 .5 68 18 70 24 30 24 32 18; rect 29 62 71 72;
  disc 50 40 7 glass
house: roof=#9e4636|#604e4c|#465068; maybe 60(rect 70 6 82 34 #8c5c50); rect 10 40 90 98; poly 50
  3 99 43 1 43 roof; rect 43 62 60 98 wood; disc 57 80 1.6 glow; rect 18 54 34 74 glass; line 26
  55 26 73 1.2, 19 64 33 64 1.2 #fafaf8; rect 68 54 84 74 glass; line 76 55 76 73 1.2, 69 64 83 64
  1.2 #fafaf8; disc 50 28 6 glass
lighthouse: poly 50 0 72 10 28 10 dark; rect 33 10 67 21 glow; rect 24 20 76 25 ink; poly 30 25 70
  25 73.5 39.5 26.5 39.5 colour; poly 26.5 39.5 73.5 39.5 77 54 23 54 660:#f8f6f0/#96969c; poly 23
  54 77 54 80.5 68.5 19.5 68.5 colour; poly 19.5 68.5 80.5 68.5 84 83 16 83 660:#f8f6f0/#96969c;
  poly 16 83 84 83 87.5 97.5 12.5 97.5 colour; rect 42 86 58 98 wood
windmill: poly 36 36 64 36 76 98 24 98; poly 34 36 50 20 66 36 dark; rect 43 80 57 98 wood; rect
  44 54 56 64 glass; t=4.774648~19.098593; 4(turn t+u(poly 50 34.5 50+.46*c 34.5+.3312*s
  50+.46*c-.072*s 34.5+.3312*s+.08*c 50+.08*c 34.5+.072*s #f6f0e0)); disc 50 34.5 3 ink
tree: poly 42 98 46 50 54 50 60 98 bark; disc 28 42 20±8, 72 42 20±8, 38 24 20±8, 64 24 19±8, 50
  36 24±8; 4(disc 30~70 18~48 5 light)
pine: rect 43 80 57 98 bark; poly 50 50 96 86 50 81 4 86, 50 26 86 62 50 57 14 62, 50 2 76 38 50
  33 24 38
flower: line 50 30 50±6 97 5 leaf; blob 50 82 70 60 90 60 74 78, 50 90 30 70 10 72 26 86 leaf;
  5|6|8(turn u(disc 50+.27*c 27+.16*s 11.5)); disc 50 27 9.5 heart
mushroom: blob 38 50 62 50 66 95 50 99 34 95 paper; blob 2 56 12 20 50 3 88 20 98 56 50 62; disc
  30 30 7±12, 55 18 6±12, 72 38 7±12, 48 44 6±12 640:paper/#967860
cactus: x=30~50; y=25~45; line 50 x+20 14 x+20 12, 14 x+20 14 x 12, 50 y+20 86 y+20 12, 86 y+20 86
  y 12 dark; rect 37 3 63 98 10 colour; mirror(line 55 10 55 94 .8 dark); maybe 50(disc 50 5 5
  #f078aa)
sun: t=0~7.957747; 10(turn t+u(poly 50+.3*c-.06*s 50+.3*s+.06*c 50+.49*c 50+.49*s 50+.3*c+.06*s
  50+.3*s-.06*c)); disc 50 50 31
moon: 25(turn 14.3239448782706+2.97300459347745*i(at 50+.48*c 50+.48*s)); b=26~34; 17(turn
  i/.32(at 80-b*s 50-.376*c)); poly
star: t=-28.183099~-21.816901; 5(turn t+u(at 50+.49*c 52+.49*s); turn t+u+10(at 50+.21*c
  52+.21*s)); poly
ball: disc 50 50 48; x=-12~12; blob 30 10 x+42 50 30 90 x+18 50, 70 10 x+82 50 70 90 x+58 50
  640:paper/#aaacb2; oval 42 24 8 5 light
kite: line 50 62 40 74 58 86 46 98 1.4 ink; poly 32 70 52 78 52 70 32 78, 46 82 66 90 66 82 46 90
  dark; poly 50 1 94 26 50 66 6 26; poly 50 1 94 26 50 26 light; poly 6 26 50 26 50 66 dark
umbrella: line 50 10 50 88 3 bark; arc 57 88 7 8 0 180 3 bark; 13(turn i/.24(at 50-.49*c
  48-.44*s)); at 83 42, 66 48, 50 42, 34 48, 17 42; poly; poly 50 4 66 47 50 42 34 47 light; line
  50 1 50 6 2 ink
chair: line 30 55 30 93 5, 90 55 90 93 5 dark; rect 12 2 24 96; rect 14 6 84 40 light; rect 78 2
  88 58, 8 52 94 63, 76 60 88 98
table: mirror(line 80 20 80 84 7 dark); mirror(rect 88 15 95 99); rect 0 3 100 20 5 colour
bench: rect 12 5 17 97, 82 5 87 97 #54545a; rect 2 8 98 21, 2 27 98 40, 0 52 100 66
sofa: mirror(rect 84 86 90 99 bark); rect 8 6 92 70 12 dark; mirror(rect 50 50 85 74 6 light);
  rect 8 70 92 90; mirror(rect 86 36 100 90 8 colour)
lamp: rect 46 42 54 90 #bc9854; oval 50 93 26 5 #bc9854; oval 50 48 14 7 #fff4aa; poly 30 3 70 3
  97 48 3 48
cup: line 32 26 37 16 30 10 34 2 2.5, 52 26 57 16 50 10 54 2 2.5 #e2e2e6; ring 76 62 19 8 dark;
  poly 8 36 76 36 68 97 16 97; oval 42 37 34 6 #623e28; rect 18 60 67 68 light
teapot: ring 16 58 20 7 dark; poly 70 72 92 30 100 34 80 86 dark; oval 50 64 33 33; oval 50 33 18
  7 dark; disc 50 22 8; disc 46 62 10 light
book: poly 10 10 20 1 98 1 98 86 88 97 paper; rect 2 10 88 98; rect 2 10 14 98 dark; rect 28 26 76
  42 paper; line 34 34 70 34 2.5 ink; disc 52 66 10 light
clock: disc 50 50 49; disc 50 50 38 paper; 12(turn u(disc 50+.32*c 50+.32*s 2.2 ink)); turn
  0~100(line 50 50 50+.18*c 50+.18*s 5 ink); turn 0~100(line 50 50 50+.28*c 50+.28*s 3.5 ink)
key: line 38 50 96 50 17; rect 73 50 82 94, 88 50 97 94; disc 23 50 48; disc 20 50 20 colour*40
guitar: rect 42 4 58 52 #5c3c28; rect 36 0 64 10 #422c22; blob 50 42 80 48 74 62 97 80 74 98 26 98
  3 80 26 62 20 48; disc 50 68 7.5 ink; rect 32 84 68 88 ink; mirror(line 54 6 54 85 .5 #e2dcc8)
hat: oval 50 80 50 17; blob 22 80 24 30 36 6 64 6 76 30 78 80; poly 22.5 58 77.5 58 78 78 22 78
  201:#be3c3c/dark
tent: poly 30 6 76 14 99 95 62 97 dark; poly 30 6 64 98 1 98; poly 30 30 42 98 22 98 colour*35
gift: mirror(blob 50 26 80 2 84 22 600:#fcf4d6/#ce343c); rect 8 42 92 98, 2 24 98 44; rect 43 24
  57 98 600:#fcf4d6/#ce343c
bucket: arc 50 34 38 30 180 360 3 #787a80; poly 6 32 94 32 80 97 20 97; oval 50 33 44 8 dark; poly
  11 52 89 52 86 64 14 64 light
candle: blob 50 1 64 16 50 28 36 16 #ffbe3c; oval 50 18 7 6 #fff4be; rect 30 28 70 92; blob 30 30
  50 28 70 30 62 46 50 36 36 42 light; oval 50 93 46 5.5 #b08c48
""")

BACKDROPS = _table("""
beach: h=30~42; sky h; fill h 66 #3480be #60bece; 7(x=0~100; y=h+3~58; line x y x+5~x+15 y .6
  #dcf0f6); ridge 64 1.2 #f4f8f6; ridge 66 1.2 #eed6a0; 14(oval 0~100 74~100 .8 .4 #ceb27c) => air
  20~h; water h+8~60; ground 74~97
forest: fill 0 70 #7eaa78 #467046; 7(x=0~100; w=1.5~3.5; rect x-.5*w 0 x+.5*w 68 #60684e);
  7(x=0~100; w=3~7; rect x-.5*w 0 x+.5*w 72 #4a3c2e); 16(x=0~100; r=6~13; oval x -4~10 r .7*r
  #2e6034|#3c743a); ridge 66 1.5 #466834; ridge 76 1.5 #585c32 => air 28~52; ground 76~97
street: sky 60; houses; fill 62 70 #bab6b0; fill 70 100 #686a70 #54565c; x=0~20; 6(rect x+20*i-15
  84 x+20*i-5 85.5 #ece8d6) => air 20~42; ground 74~97
mountain: sky 70; 4(x=30*i-8~30*i+12; t=12~34; w=24~36; poly x t x+w 72 x-w 72 #747e96; poly x t
  x+.36*w .64*t+25.92 x+.1*w .72*t+20.16 x-.12*w .6*t+28.8 x-.36*w .64*t+25.92 #f6f8fc); ridge 64
  2 #dce6f2; ridge 74 1.5 #f0f4fa => air 20~45; ground 76~97
desert: sky 60; ridge 50 4 120 #e2b270; ridge 60 4 80 #d6a05c; ridge 74 3 100 #e8ba76; 6(x=0~100;
  y=78~98; line x y x+14 y+.8 .6 #ce9c5c) => air 20~45; ground 76~97
meadow: h=42~54; sky 70; ridge h 3 #86b86e; ridge h+10 3 #70b054; ridge h+20 2 #60a646;
  40(x=0~100; y=h+24~100; line x y x-1~x+1 y-3 .5 #428434) => air 20~h; ground 74~97
lake: h=38~46; sky h; ridge h-6 3 #60867a; fill h 84 #6ca4c4 #3a76a0; 10(x=0~100; y=h+2~78; line x
  y x+4~x+20 y .5 #96c6dc); ridge 83 1.2 #68964a; 16(x=0~100; line x 87 x-1~x+1 79 .6 #567e3e) =>
  air 20~h-4; water h+10~76; ground 87~97
farm: sky 50; ridge 42 2 #96b264; fill 50 100 #aa7c4e #845a38; 23(x=7*i-27; y=30*i-280; poly x 50
  x+1.2 50 y+6 100 y-2 100 #688c3c|#7a9842); 1~3(oval 0~100 53 6 4.5 #e2be60); rect 0 52 100 53.4,
  0 57 100 58.4 #d6cebe; 9(rect 12.5*i 49 12.5*i+2 62 #e2daca) => air 20~42; ground 72~97
living_room: wall=#ceba9e|#b0c0c4|#ccb0ac|#bcc4a4; fill 0 64 wall wall; 10(rect 10*i 0 10*i+4 64
  wall*112); x=5~20; rect 72.8-x 8.8 101.2-x 39.2 #f6f2ea; daylight 74-x 10 26 28; rect 86.4-x 10
  87.6-x 38 #f6f2ea; rect x 14 x+14 30 #6e4e34; rect x+1.5 15.5 x+12.5 28.5 #96b4aa|#c8aa8c; rect
  0 62 100 65 #f0eade; fill 65 100 #b28050 #96663e; line 0 70 100 70 .4, 0 77 100 77 .4, 0 86 100
  86 .4, 0 95 100 95 .4 #805634; rug=#9c5054|#546c8c|#788260; oval 35~65 86 40 10 rug => air
  28~56; ground 74~97
kitchen: fill 0 66 #e2e2da #d8dad2; line 7.5 0 7.5 66 .3, 15 0 15 66 .3, 22.5 0 22.5 66 .3, 30 0
  30 66 .3, 37.5 0 37.5 66 .3, 45 0 45 66 .3, 52.5 0 52.5 66 .3, 60 0 60 66 .3, 67.5 0 67.5 66 .3,
  75 0 75 66 .3, 82.5 0 82.5 66 .3, 90 0 90 66 .3, 97.5 0 97.5 66 .3 #c4c8c2; line 0 7.5 100 7.5
  .3, 0 15 100 15 .3, 0 22.5 100 22.5 .3, 0 30 100 30 .3, 0 37.5 100 37.5 .3, 0 45 100 45 .3, 0
  52.5 100 52.5 .3, 0 60 100 60 .3 #c4c8c2; door=#7ea096|#c4a070|#96a4be; 4(maybe 70(rect 25*i+1 0
  25*i+24 20 door); rect 25*i+1 50 25*i+24 70 door*90; rect 25*i+20 56 25*i+21.5 62 #f0f0ec); rect
  0 46 100 50 #786050; fill 70 100 #e8e4d8 #d6d2c6; 4(rect 40*i-20 70 40*i 74.9481547 #969ca0);
  3(rect 40*i 74.9481547 40*i+20 82.1837859 #969ca0); 4(rect 40*i-20 82.1837859 40*i 90.639582
  #969ca0); 3(rect 40*i 90.639582 40*i+20 100 #969ca0) => air 30~50; ground 78~97
underwater: fill 0 100 #48accc #124682; 4(x=0~100; w=4~10; poly x 0 x+w 0 x+2*w-20 86 x-25 86
  #54aacc); ridge 88 1.5 #c4ba8c; 4~9(x=0~100; y=86~94; 3~8(turn 27.05634*i(at x+.012*s y-3.5*i));
  line 1.4 #287e5c|#46783c); 12(r=.4~1; oval 0~100 0~80 r r #bee4f0) => water 28~84; ground 90~98
sky: sky 100; 3~6(cloud 0~100 10~75 5~10); 12(cloud 0~100 92~102 8~14) => air 28~92
""")
"""How each background is drawn and, behind =>, the heights for feet in each of its zones."""
