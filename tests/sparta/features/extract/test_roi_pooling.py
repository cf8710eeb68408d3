from pathlib import Path

import numpy as np
import pytest

from sparta.features.extract.detector import pool_boxes
from sparta.features.extract.networks.backbone import Backbone
from tests.sparta.features.readers.real_regions import read_real_regions

BOXES = np.array(
    [
        [0, 0, 1, 1],
        [0.1, 0.3, 0.35, 0.9],
        [0, 0, 0.02, 0.03],
        [0.97, 0.2, 1, 0.9],
        [0.5, 0.5, 0.5, 1],
    ]
)


def slow_pool(cells: np.ndarray, box: np.ndarray) -> np.ndarray:
    """Point by point, with the four cells around each."""
    rows, columns, dimension = cells.shape
    total = np.zeros(dimension)
    for i in range(14):
        for j in range(14):
            y = (box[1] + (box[3] - box[1]) * (i + 0.5) / 14) * rows - 0.5
            x = (box[0] + (box[2] - box[0]) * (j + 0.5) / 14) * columns - 0.5
            y, x = min(max(y, 0), rows - 1), min(max(x, 0), columns - 1)
            top, left = int(y), int(x)
            bottom, right = min(top + 1, rows - 1), min(left + 1, columns - 1)
            upper = (1 - x + left) * cells[top, left] + (x - left) * cells[top, right]
            lower = (1 - x + left) * cells[bottom, left] + (x - left) * cells[bottom, right]
            total += (1 - y + top) * upper + (y - top) * lower
    return total / 14**2


@pytest.mark.parametrize(("rows", "columns"), [(7, 7), (5, 9), (1, 3), (30, 2)])
def test_pools_as_point_by_point(rows: int, columns: int) -> None:
    cells = np.random.default_rng(0).normal(size=(rows, columns, 6)).astype(np.float16)
    found = pool_boxes(cells, BOXES)
    assert found.dtype == np.float32
    right = [slow_pool(cells.astype(np.float64), box) for box in BOXES]
    np.testing.assert_allclose(found, right, atol=1e-5)


def test_real_regions_are_pooled_as_stored(shared: Path) -> None:
    """The published rows are this pooling of this backbone, projected on 256 components."""
    images = read_real_regions(shared, 8)
    components = np.load(shared / "regions" / "pca.npz")
    backbone = Backbone(str(shared / "backbones" / "mobilenet_v2_1.0_224"), device="cpu")
    features, _ = backbone.encode(np.stack([image.pixels for image in images]))
    for rows, image in zip(features, images, strict=True):
        pooled = pool_boxes(rows[:-1].reshape(7, 7, -1), image.boxes)
        projected = (pooled - components["mean"]) @ components["components"].T
        np.testing.assert_allclose(projected, image.features, atol=0.02)
        assert np.abs(image.features).max() > 10
