"""How an index that exists turns term scores into impacts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from indexer.encoding.asked import asked_terms
from indexer.encoding.term_scores import ImageEncoder
from indexer.impacts import ImpactParameters
from indexer.manifest import OFFSETS, Manifest
from indexer.quantisation import Quantiser
from indexer.settings import ASKED_KINDS
from sparta.errors import InputError


def parameters_of(
    index: Path, manifest: Manifest, encoder: ImageEncoder, copies: int, asked: Path | None = None
) -> ImpactParameters:
    """The offsets, scale, terms and weights that an index was built with.

    Args:
        index: the folder.
        manifest: of the index.
        encoder: of the images to add, for the terms of the index.
        copies: augmentations of each of them.
        asked: the file of queries, if the index was built with one.

    Raises:
        InputError: if the encoder is not the index's, or the file of queries is missing or another.
    """
    _check_models(index, manifest, encoder, copies)
    offset: NDArray[np.float32] = np.load(index / OFFSETS, allow_pickle=False)
    return ImpactParameters(
        offset,
        encoder.allowed(encoder.terms),
        manifest.top_n,
        Quantiser(manifest.scale, manifest.bits),
        _weights(index, manifest, encoder, asked),
    )


def _check_models(index: Path, manifest: Manifest, encoder: ImageEncoder, copies: int) -> None:
    found = [scorer.fingerprint for scorer in encoder.scorers]
    if found != manifest.models:
        raise InputError(
            f"{index} was built with {_named(manifest.models)}, --model gives {_named(found)}: give"
            " the same models in the same order"
        )
    if copies != len(manifest.features):
        raise InputError(
            f"{index} was built with {len(manifest.features)} feature stores of each photo, "
            f"{copies} are given: give one for each augmentation, the plain one first"
        )


def _named(models: list[str]) -> str:
    return f"{len(models)} model{'s' * (len(models) > 1)} ({', '.join(m[:12] for m in models)})"


def _weights(
    index: Path, manifest: Manifest, encoder: ImageEncoder, asked: Path | None
) -> NDArray[np.float32] | None:
    source = manifest.asked
    if source not in ASKED_KINDS:
        if asked is None:
            raise InputError(f"{index} was built with a file of queries: give it as --asked")
        source = str(asked)
    found = asked_terms(encoder, source, manifest.asked_power)
    if found.source != manifest.asked:
        raise InputError(
            f"--asked {asked} is not the file of queries that {index} was built with: its content "
            f"has hash {found.source[:12]} instead of {manifest.asked[:12]}"
        )
    return found.weights
