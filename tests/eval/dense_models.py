"""Tiny dense models."""

from __future__ import annotations

from pathlib import Path

from tests.indexer.tiny_dense import save_dense_model
from tests.indexer.vocabulary import WORDS


def save_dense(folder: Path, seed: int = 0, views: int = 1) -> Path:
    """A dense model with all words in its vocabulary, so that few captions are alike to it."""
    return save_dense_model(folder, views=views, seed=seed, captions=[" ".join(WORDS)])
