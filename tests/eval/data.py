"""The tiny data sets of these tests, and tiny dense models."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from sparta.captions.read import CaptionedPhoto
from sparta.features.store import FeatureStore
from sparta.tokenizer import WordPieceTokenizer
from tests.indexer.tiny_dense import save_dense_model
from tests.indexer.vocabulary import WORDS


class Data(NamedTuple):
    """The fixtures of these names."""

    views: list[FeatureStore]
    models: list[Path]
    captioned: list[CaptionedPhoto]
    captions_file: Path
    tokenizer: WordPieceTokenizer


def save_dense(folder: Path, seed: int = 0, views: int = 1) -> Path:
    """A dense model with all words in its vocabulary, so that few captions are alike to it."""
    return save_dense_model(folder, views=views, seed=seed, captions=[" ".join(WORDS)])
