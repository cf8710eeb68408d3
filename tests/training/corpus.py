"""A corpus that a tiny model learns in seconds: a photo is three things, one region each."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from pydantic import BaseModel

from sparta.features.record import ImageFeatures
from tests import tiny
from tests.stores import write_store
from training.visualsparta.config import VisualSpartaTrainConfig
from training.vse.config import VseTrainConfig

THINGS = ["dog", "cat", "red", "ball", "beach", "man", "hat", "green", "tree", "sea"]
DIMENSION = 12
ON_CPU: dict[str, Any] = {"precision": "32-true", "accelerator": "cpu", "devices": 1, "workers": 0}


@dataclass(frozen=True)
class Corpus:
    features: Path
    captions: Path

    def config(self, **changes: Any) -> VisualSpartaTrainConfig:
        """A tiny run; `data` and `model` are merged into the defaults key by key."""
        encoder = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
        encoder |= {"intermediate_size": 32, "max_position_embeddings": 80}
        rates = {"learning_rate": 3e-3, "query_learning_rate": 2e-2}
        values = ON_CPU | {"batch_size": 30, "epochs": 3} | rates | changes
        values["data"] = self.data | changes.get("data", {})
        values["model"] = {"encoder": encoder} | changes.get("model", {})
        return VisualSpartaTrainConfig.model_validate(values)

    @property
    def data(self) -> dict[str, Any]:
        return {"features": [self.features], "captions": self.captions, "validation_photos": 30}


def write_settings(path: Path, config: BaseModel) -> str:
    """Write a run's settings as a preset."""
    path.write_text(yaml.safe_dump(config.model_dump(mode="json")))
    return str(path)


def write_corpus(folder: Path) -> Corpus:
    """Write features and captions of 120 photos into the folder."""
    rng = np.random.default_rng(0)
    looks = rng.standard_normal((len(THINGS), DIMENSION))
    photos, lines = [], []
    for number, chosen in enumerate(combinations(range(len(THINGS)), 3)):
        name = f"p{number:03d}.jpg"
        features = looks[list(chosen)] + 0.1 * rng.standard_normal((3, DIMENSION))
        values, none = features.astype(np.float16), ("",) * 3
        photos.append(ImageFeatures(name, values, tiny.boxes(3, rng), none, none, 64, 64))
        words = [THINGS[i] for i in chosen]
        texts = [f"a {a} and the {b} by a {c}" for a, b, c in (words, words[::-1])]
        lines.append(json.dumps({"image": name, "captions": texts}) + "\n")
    write_store(folder / "features", tiny.source(DIMENSION), photos)
    (folder / "captions.jsonl").write_text("".join(lines))
    return Corpus(folder / "features", folder / "captions.jsonl")


METHODS: dict[str, dict[str, Any]] = {
    "vse++": {},
    "vse-inf": {"model": {"visual_pooling": "gpo", "text_pooling": "gpo"}},
    "vse-2ad": {
        "model": {"visual_pooling": "adpool", "text_pooling": "adpool"},
        "objective": {"kind": "adopt"},
    },
    "mv-vse": {"model": {"views": 2}, "objective": {"kind": "multi-view-triplet"}},
}


def dense_config(corpus: Corpus, method: str = "vse++", **changes: Any) -> VseTrainConfig:
    chosen = METHODS[method]
    options = {"dimension": 32, "word_dim": 16, "visual": "region", **chosen.get("model", {})}
    values: dict[str, Any] = {
        "data": corpus.data,
        "model": {"options": options, "min_count": 1},
        "objective": chosen.get("objective", {}),
        "augmentation": {"regions": "regions", "words": 0.1},
    }
    values |= {"batch_size": 30, "epochs": 4, "milestones": [3], "learning_rate": 5e-3}
    return VseTrainConfig.model_validate(ON_CPU | values | changes)
