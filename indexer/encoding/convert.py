"""VisualSparta models as networks of OpenVINO; needs torch."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from indexer.encoding.converted_scorer import (
    NETWORK,
    ConvertedScorer,
    network_key,
    network_terms,
)
from indexer.encoding.model_files import ModelFiles
from indexer.encoding.torch_scorer import TorchScorer
from sparta.inference.cache import add_entry
from sparta.inference.convert import convert
from sparta.visualsparta.image_terms import ImageTerms
from sparta.visualsparta.padding import PaddedImages

LARGEST_ERROR = 1e-3  # of a term score, against torch's
EXAMPLES, CHECKED = 2, 3  # images: a network for batches of one length alone is found out


def convert_scorer(
    scorer: TorchScorer, files: ModelFiles, wanted: NDArray[np.bool_], regions: int
) -> ConvertedScorer:
    """Convert a model and put it in the cache.

    Args:
        scorer: the model, on the CPU.
        files: the same model's.
        wanted: [V] bool, terms to score.
        regions: of every image.

    Raises:
        Exception: if torch or OpenVINO does not know how, the result computes something else, or
            the cache cannot be written.
    """
    terms = network_terms(files, wanted)
    make = partial(_write, scorer, files, terms, regions)
    return ConvertedScorer(files, terms, *add_entry(network_key(files, terms, regions), make))


def _write(
    scorer: TorchScorer, files: ModelFiles, terms: NDArray[np.int64], regions: int, folder: Path
) -> dict[str, Any]:
    images = _noise(EXAMPLES, regions, files.config.feature_dim)
    module = ImageTerms(scorer.model, torch.from_numpy(terms)).eval()
    example = [torch.from_numpy(part) for part in (images.regions, images.locations)]
    convert(module, example, folder / NETWORK, batches=True)
    description = {"fingerprint": scorer.fingerprint}
    wanted = np.zeros(len(files.indexable), np.bool_)
    wanted[terms] = True
    images = _noise(CHECKED, regions, files.config.feature_dim)
    expected = scorer.term_scores(images, wanted)
    found = ConvertedScorer(files, terms, folder, description).term_scores(images, wanted)
    if np.abs(found.scores - expected.scores).max(initial=0) > LARGEST_ERROR:
        raise ValueError("the network that OpenVINO makes of it computes something else")
    return description


def _noise(images: int, regions: int, dimension: int) -> PaddedImages:
    """Images without labels."""
    random = np.random.default_rng(0)
    none = np.zeros((images, 0), np.int64)
    return PaddedImages(
        random.random((images, regions, dimension)).astype(np.float16),
        random.random((images, regions, 6), np.float32),
        np.ones((images, regions), np.bool_),
        none,
        none.astype(np.bool_),
        none,
    )
