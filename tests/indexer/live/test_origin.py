"""The origins of images: equal for equal features alone."""

from __future__ import annotations

from dataclasses import replace

from indexer.live.origin import DIGITS, built_origin, new_origin, origin_of
from sparta.features.store import FeatureStore


def test_features_and_nothing_else_decide(store: FeatureStore) -> None:
    assert len({origin_of(image) for image in store}) == len(store)
    image = store[0]
    assert len(origin_of(image)) == len(new_origin()) == DIGITS
    assert origin_of(image) == origin_of(replace(image, image_id="other"))
    others = [
        replace(image, width=image.width + 1),
        replace(image, features=image.features + 1),
        replace(image, boxes=image.boxes[::-1]),
        replace(image, labels=("x",) * len(image.labels)),
        replace(image, attributes=("x",) * len(image.attributes)),
    ]
    assert len({origin_of(one) for one in (image, *others)}) == 6
    assert new_origin() != new_origin()
    assert built_origin("a") != built_origin("b")
