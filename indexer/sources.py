"""What `sparta index` is pointed at: a feature store, or photos to extract with the model's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sparta.config import VisualSpartaConfig
from sparta.errors import InputError
from sparta.features.extract import extract_photos
from sparta.features.record import FeatureSource
from sparta.features.store import HEADER, FeatureStore


def open_features(
    folder: Path,
    model_dir: str | Path,
    out: Path,
    *,
    device: str = "auto",
    progress: Callable[[str, int, int], None] = lambda stage, done, total: None,
) -> FeatureStore:
    """Open a feature store, or make one from photos with the model's feature source.

    Features of photos go to `OUT.features` and are kept: a second run reuses them.

    Raises:
        InputError: if the folder is neither, or the model does not say what made its features.
    """
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder: give a feature store or a folder of photos")
    if (folder / HEADER).is_file():
        return FeatureStore.open(folder)
    source = _feature_source(model_dir)
    store = out.with_name(out.name + ".features")
    extract_photos(
        folder,
        store,
        source.backbone,
        image_size=source.image_size,
        labels=source.label_count,
        device=device,
        progress=lambda done, total: progress("extract", done, total),
    )
    return FeatureStore.open(store)


def _feature_source(model_dir: str | Path) -> FeatureSource:
    try:
        config = VisualSpartaConfig.from_pretrained(model_dir)
    except (OSError, ValueError) as error:
        raise InputError(f"--model {model_dir} is not a VisualSparta model: {error}") from error
    if config.feature_source is None:
        raise InputError(
            f"--model {model_dir} does not say what made its features: run sparta extract first"
        )
    source = FeatureSource(**config.feature_source)
    if source.kind == "region":
        raise InputError(
            f"--model {model_dir} takes a detector's regions ({source.backbone}), which cannot be "
            "extracted here: give a feature store of such regions instead of photos"
        )
    return source
