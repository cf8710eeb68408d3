"""Lines of LXMERT's TSV files, small enough to check by hand."""

from typing import Any

from tests.sparta.features.readers.bottom_up_files import BOXES, FEATURES, encode

OBJECTS, ATTRIBUTES = [2, 0, 1], [1, 0, 1]
SURE, SURELY = [0.5, 0.25, 0.75], [0.5, 0.5, 0.0625]


def line(
    key: str,
    objects: Any = OBJECTS,
    sure: Any = SURE,
    attributes: Any = ATTRIBUTES,
    surely: Any = SURELY,
    height: object = 32,
    count: object = 3,
) -> str:
    cells = [
        *(key, height, 64),
        *(encode(objects, "<i8"), encode(sure), encode(attributes, "<i8"), encode(surely)),
        *(count, encode(BOXES), encode(FEATURES)),
    ]
    return "\t".join(map(str, cells)) + "\n"
