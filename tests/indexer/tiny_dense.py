"""Tiny dense models, and a dense part's scores the slow way."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import torch

from sparta.features.record import FeatureSource
from sparta.features.store import FeatureStore
from sparta.vse.batch import collate_regions
from sparta.vse.config import VseConfig
from sparta.vse.model import VseModel
from sparta.vse.tokenizer import TextTokenizer
from tests.indexer.tiny import SOURCE

CAPTIONS = ["a dog on the beach", "the red ball", "two cats run", "dogs and a cat", "blue sky"]


def save_dense_model(
    folder: Path,
    name: str = "vse++",
    views: int = 1,
    seed: int = 0,
    source: FeatureSource = SOURCE,
    captions: list[str] = CAPTIONS,
) -> Path:
    tokenizer = TextTokenizer.from_captions(captions, min_count=1)
    config = VseConfig(
        name=name,
        feature_dim=source.dimension,
        feature_source=asdict(source),
        visual="grid",
        word_dim=8,
        vocabulary_size=len(tokenizer),
        dimension=16,
        visual_pooling="gpo" if views > 1 else "mean",
        views=views,
    )
    torch.manual_seed(seed)
    model = VseModel(config)
    model.attach(tokenizer, folder)
    model.save_pretrained(folder)
    return folder


def slow_scores(folder: Path, store: FeatureStore, query: str) -> list[list[float]]:
    """[N][K] cosines, one image at a time."""
    model = VseModel.from_pretrained(folder)
    text = model.embed_texts([query])[0]
    rows = []
    with torch.no_grad():
        for image in store:
            views = model.encode_images(collate_regions([image]))[0]
            rows.append([float(view @ text) for view in views])
    return rows
