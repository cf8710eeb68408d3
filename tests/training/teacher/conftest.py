from dataclasses import replace

import numpy as np
import pytest

from sparta.features.store import FeatureStore
from tests import tiny
from tests.stores import write_store


@pytest.fixture(scope="session")
def stores(tmp_path_factory: pytest.TempPathFactory) -> list[FeatureStore]:
    """Two stores of four photos, and one of other features."""
    folder = tmp_path_factory.mktemp("stores")
    images = sorted(tiny.images(), key=lambda image: image.image_id)
    other = replace(tiny.source(), weights="def")
    halved = [replace(image, features=image.features / np.float16(2)) for image in images]
    return [
        write_store(folder / "plain", tiny.source(), images),
        write_store(folder / "halved", tiny.source(), halved),
        write_store(folder / "other", other, images),
    ]
