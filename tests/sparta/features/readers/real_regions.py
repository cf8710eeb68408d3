"""Real region features, labels and attributes, read without the project's readers."""

import base64
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image


class RealRegions(NamedTuple):
    """One photo's: pixels [224, 224, 3], boxes [n, 4] relative, features [n, 256], n colours."""

    pixels: NDArray[np.uint8]
    boxes: NDArray[np.float64]
    features: NDArray[np.float16]
    colours: list[str]


def read_real_regions(shared: Path, count: int) -> list[RealRegions]:
    """The first photos of the validation split; skips the test if they are absent."""
    folder = shared / "regions" / "val"
    if not folder.is_dir():
        pytest.skip(f"real regions are not installed: {folder} is absent")
    with (folder / "features.tsv").open() as features, (folder / "predictions.tsv").open() as found:
        lines = [(features.readline(), found.readline()) for _ in range(count)]
    return [_read(shared / "photos" / "images", *pair) for pair in lines]


def _read(photos: Path, features: str, predictions: str) -> RealRegions:
    key, n, payload = features.split("\t")
    objects: list[dict[str, Any]] = json.loads(predictions.split("\t")[1])["objects"]
    rows = np.frombuffer(base64.b64decode(payload), "<f2").reshape(int(n), 262)
    return RealRegions(
        np.asarray(Image.open(photos / f"{key}.jpg").convert("RGB")),
        np.array([entry["rect"] for entry in objects]) / 224,
        rows[:, :256],
        [" ".join(entry["attributes"]) for entry in objects],
    )
