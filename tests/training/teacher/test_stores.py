import pytest

from sparta.errors import InputError
from sparta.features.store import FeatureStore
from tests import tiny
from training.teacher.teachers import batches_of, matching_stores


def test_a_model_reads_the_stores_of_its_features(stores: list[FeatureStore]) -> None:
    config = tiny.model().config
    assert matching_stores("m", config, stores) == stores[:2]
    with pytest.raises(InputError, match=r"m was trained on other .*weights: 'abc' against 'def'"):
        matching_stores("m", config, stores[2:])
    config.feature_source = None
    assert matching_stores("m", config, stores) == stores
    config.feature_dim = 9
    with pytest.raises(InputError, match=r"\(features of 9 numbers\): name feature stores"):
        matching_stores("m", config, stores)


def test_images_come_in_order_from_any_place(stores: list[FeatureStore]) -> None:
    ids = [stores[0].ids[i] for i in (2, 0, 3)]
    (images,) = batches_of(stores[0], ids, 1)
    assert [image.image_id for image in images] == ids[1:]
    with pytest.raises(InputError, match=r"plain lacks photo none\.jpg: the teacher needs"):
        list(batches_of(stores[0], ["none.jpg"], 0))
