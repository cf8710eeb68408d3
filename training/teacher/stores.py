"""The feature stores that a teacher of this project reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from transformers import PreTrainedConfig

from sparta.errors import InputError
from sparta.features.record import FeatureSource, ImageFeatures
from sparta.features.store import FeatureStore

BATCH = 64


def matching_stores(
    name: str, config: PreTrainedConfig, stores: Sequence[FeatureStore]
) -> list[FeatureStore]:
    """Those stores that hold the features a model was trained on.

    Args:
        name: folder or hub name of the model, for messages.
        config: the model's, with `feature_source` and `feature_dim`.
        stores: to choose from.

    Raises:
        InputError: if there is none.
    """
    if config.feature_source is None:
        found = [store for store in stores if store.source.dimension == config.feature_dim]
        differences = f"features of {config.feature_dim} numbers"
    else:
        wanted = FeatureSource(**config.feature_source)
        found = [store for store in stores if not wanted.differences(store.source)]
        differences = "; ".join(wanted.differences(stores[0].source))
    if not found:
        raise InputError(
            f"--teacher {name} was trained on other features than {stores[0].folder} holds "
            f"({differences}): name feature stores that it can read in teacher.features"
        )
    return found


def batches_of(
    store: FeatureStore, image_ids: Sequence[str], start: int
) -> Iterator[list[ImageFeatures]]:
    """Images of a store in the order of their ids, from a given place on, `BATCH` at a time.

    Raises:
        InputError: if the store lacks one.
    """
    for first in range(start, len(image_ids), BATCH):
        try:
            yield [store[store.index(name)] for name in image_ids[first : first + BATCH]]
        except KeyError as error:
            raise InputError(
                f"{store.folder} lacks photo {error.args[0]}: the teacher needs every training "
                "photo"
            ) from error
