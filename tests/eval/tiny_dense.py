"""A tiny dense model over the words and features of the other tests."""

from __future__ import annotations

from pathlib import Path

import torch

from sparta.dense.start import from_captions
from sparta.features.record import FeatureSource
from tests.indexer.conftest import WORDS
from tests.indexer.tiny import SOURCE


def save_dense(folder: Path, seed: int = 0, source: FeatureSource = SOURCE, views: int = 1) -> Path:
    """Random weights, several views if asked for."""
    torch.manual_seed(seed)
    model = from_captions(
        [" ".join(WORDS)],
        source,
        min_count=1,
        dimension=8,
        word_dim=6,
        visual="grid",
        views=views,
        view_projections="separate",
    )
    model.save_pretrained(folder)
    return folder
