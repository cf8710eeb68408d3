"""TSV files in the format of bottom-up attention, small enough to check by hand."""

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Numbers float16 holds exactly, of a photo of 64 x 32 pixels.
FEATURES = np.array([[1, -2, 3], [0.5, 0, 0], [0, 0, 4]], np.float32)


BOXES = np.array([[16, 8, 48, 32], [0, 0, 64, 32], [8, 8, 8, 24]], np.float32)


def encode(values: Any, dtype: str = "<f4") -> str:
    return base64.b64encode(np.asarray(values, dtype).tobytes()).decode()


def line(
    key: str,
    features: Any = FEATURES,
    boxes: Any = BOXES,
    width: object = 64,
    height: object = 32,
    count: object = 3,
) -> str:
    return f"{key}\t{width}\t{height}\t{count}\t{encode(boxes)}\t{encode(features)}\n"


def write(path: Path, lines: Sequence[str]) -> Path:
    path.write_text("".join(lines), newline="")
    return path


def changed(values: NDArray[Any], row: int, column: int, value: float) -> NDArray[Any]:
    values = values.copy()
    values[row, column] = value
    return values
