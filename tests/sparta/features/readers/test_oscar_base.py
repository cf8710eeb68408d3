from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from sparta.features.readers.oscar_base import OscarReader
from sparta.features.readers.oscar_captioning import OscarCaptioningReader
from sparta.features.readers.oscar_pt import OscarPtReader
from sparta.features.readers.scene_graph import SceneGraphReader
from sparta.features.readers.vinvl import VinvlReader
from sparta.features.record import ImageFeatures
from tests.sparta.features.readers.oscar_files import write_captioning, write_pt, write_scene_graph

Write = Callable[[Path, Sequence[ImageFeatures]], Path]
LAYOUTS: dict[str, tuple[Write, Callable[[list[Path]], OscarReader]]] = {
    "captioning": (write_captioning, OscarCaptioningReader),
    "captioning in half precision": (
        lambda folder, images: write_captioning(folder, images, "<f2"),
        OscarCaptioningReader,
    ),
    "dictionaries": (write_pt, OscarPtReader),
    "predictions": (write_scene_graph, SceneGraphReader),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_real_regions_are_the_same_in_every_layout(
    tmp_path: Path, shared: Path, layout: str
) -> None:
    folder = shared / "regions" / "val"
    if not folder.is_dir():
        pytest.skip(f"real regions are not installed: {folder} is absent")
    whole = VinvlReader([folder])
    images = [whole[row] for row in range(0, 1000, 25)]
    write, open_reader = LAYOUTS[layout]
    reader = open_reader([write(tmp_path, images)])
    assert reader.ids == [image.image_id for image in images]
    assert reader.source.dimension == 256
    for row, image in enumerate(images):
        found = reader[row]
        np.testing.assert_array_equal(found.features, image.features)
        np.testing.assert_allclose(found.boxes, image.boxes, atol=1e-3)
        assert (found.labels, found.attributes) == (image.labels, image.attributes)
