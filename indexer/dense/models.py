"""The dense models to add to an index: named as backends, and checked before long work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from indexer.dense.manifest import is_name
from indexer.dense.vectors import import_faiss
from indexer.encoding.features import check_features, check_stores
from sparta.errors import InputError
from sparta.features.store import FeatureStore
from sparta.model_id import read_model_config
from sparta.vse.config import VseConfig


def name_models(given: Sequence[str]) -> dict[str, str]:
    """Name → folder or hub name of each model, from MODEL (its configured name) or NAME=MODEL.

    Raises:
        InputError: if a name cannot be used, two are the same, or one is not a dense model.
    """
    models: dict[str, str] = {}
    for text in given:
        name, _, model = text.partition("=")
        if not model or "/" in name:  # a path may contain a =
            model = text
            name = _read_config(model).name
        if not is_name(name):
            raise InputError(
                f"--model {text}: {name!r} cannot be a backend's name, which has letters, digits, "
                "+, _ and - and is not sparta or milvus: give --model NAME=MODEL"
            )
        if name in models:
            raise InputError(
                f"--model {models[name]} and {model} are both named {name!r}: distinguish them "
                "with --model NAME=MODEL"
            )
        models[name] = model
    return models


def check_models(models: Mapping[str, str], store: FeatureStore) -> None:
    """Refuse, before long work, models that cannot embed a store.

    Raises:
        InputError: if one is not a dense model or takes other features, the store is not the
            plain one, or FAISS is not installed.
    """
    import_faiss()
    check_stores([store])
    for model in models.values():
        config = _read_config(model)
        if config.vision is None:
            check_features(model, config, store.source, store.folder)
        elif store.photos is None or not store.photos.is_dir():
            raise InputError(
                f"--model {model} takes photos, and those of {store.folder} are not where it "
                f"records them ({store.photos or 'nowhere'}): extract them again"
            )


def _read_config(model: str) -> VseConfig:
    values = read_model_config(model, (VseConfig.model_type,), "dense model", "--model")
    return VseConfig.from_dict(values)
