"""Models as scorers: converted ones on a CPU, else in torch."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from indexer.encoding.converted_scorer import find_converted, is_convertible
from indexer.encoding.model_files import ModelFiles
from indexer.encoding.scorer import Scorer
from indexer.encoding.stores import check_features
from indexer.settings import TermSet
from sparta.errors import first_line
from sparta.features.record import FeatureImages
from sparta.inference.device import on_cpu
from sparta.inference.runtime import installed
from sparta.progress import Progress, no_progress
from sparta.tokenizer import Tokenizer

log = logging.getLogger(__name__)


def load_scorers(
    names: Sequence[str | Path],
    store: FeatureImages,
    device: str,
    terms: TermSet,
    progress: Progress = no_progress,
) -> tuple[Sequence[Scorer], Tokenizer]:
    """Load models, and check them against each other and a feature store.

    Torch is imported only where a model runs in it or has not been converted before. A model that
    cannot be converted runs in torch, with a warning where it was tried.

    Args:
        names: folders or hub names.
        store: whose images they will read.
        device: "auto" takes a GPU if there is one.
        terms: terms to compute, "trained" (by at least one model) or "all".
        progress: stage "convert", in models.

    Raises:
        InputError: if there is none, one cannot be used, their vocabularies differ, or they take
            other features.
    """
    files = _convertible(names, store) if installed() and on_cpu(device) else []
    if not files:
        return _load_torch(names, store, device)
    wanted, tokenizer = wanted_terms(files, files[0].tokenizer, terms), files[0].tokenizer
    regions = min(files[0].config.max_regions, len(store[0].features))
    found = [find_converted(own, wanted, regions) for own in files]
    for name, own in zip(names, files, strict=True):
        check_features(name, own.config, store)
    converted: list[Scorer] = [scorer for scorer in found if scorer]
    if len(converted) == len(files):
        return converted, tokenizer
    return _convert(names, files, wanted, regions, store, progress), tokenizer


def wanted_terms(
    models: Sequence[ModelFiles | Scorer], tokenizer: Tokenizer, terms: TermSet
) -> NDArray[np.bool_]:
    """[V] bool: terms "trained" by at least one model, or "all" that may enter an index."""
    if terms == "all":
        return tokenizer.indexable
    trained = np.any([model.trained_terms for model in models], axis=0)
    allowed: NDArray[np.bool_] = tokenizer.indexable & trained
    return allowed


def _convertible(names: Sequence[str | Path], store: FeatureImages) -> list[ModelFiles]:
    """The files of models that can all be converted, for the same regions; none otherwise."""
    try:
        files = [ModelFiles.open(name) for name in names]
    except Exception:  # whatever is wrong, loading the model says so
        return []
    same = {(own.tokenizer.vocabulary_hash, own.config.max_regions) for own in files}
    able = len(same) == 1 and all(is_convertible(own, store.source.kind) for own in files)
    return files if able else []


def _load_torch(
    names: Sequence[str | Path], store: FeatureImages, device: str
) -> tuple[Sequence[Scorer], Tokenizer]:
    from indexer.encoding.models import load_models
    from indexer.encoding.torch_scorer import TorchScorer
    from sparta.features.extract.networks.backbone import pick_device

    loaded, tokenizer = load_models(names, pick_device(device))
    for name, model in zip(names, loaded, strict=True):
        check_features(name, model.config, store)
    return [TorchScorer(model) for model in loaded], tokenizer


def _convert(
    names: Sequence[str | Path],
    files: Sequence[ModelFiles],
    wanted: NDArray[np.bool_],
    regions: int,
    store: FeatureImages,
    progress: Progress,
) -> Sequence[Scorer]:
    """All models converted; in torch if one cannot be."""
    from indexer.encoding.convert import convert_scorer
    from indexer.encoding.torch_scorer import TorchScorer

    loaded, _ = _load_torch(names, store, "cpu")
    converted: list[Scorer] = []
    try:
        for done, (scorer, own) in enumerate(zip(loaded, files, strict=True)):
            progress("convert", done, len(files))
            assert isinstance(scorer, TorchScorer)
            converted.append(convert_scorer(scorer, own, wanted, regions))
    except Exception as error:  # conversion runs the code of any encoder
        log.warning("the models run in torch, which is slower: %s", first_line(error))
        return loaded
    progress("convert", len(files), len(files))
    return converted
