"""Tiny training runs of the dense models."""

from typing import Any

from tests.training.corpus import Corpus
from training.vse.config import VseTrainConfig

METHODS: dict[str, dict[str, Any]] = {
    "vse++": {},
    "vse-inf": {"model": {"visual_pooling": "gpo", "text_pooling": "gpo"}},
    "vse-2ad": {
        "model": {"visual_pooling": "adpool", "text_pooling": "adpool"},
        "objective": {"kind": "adopt"},
    },
    "mv-vse": {"model": {"views": 2}, "objective": {"kind": "multi-view-triplet"}},
    "softmax": {"model": {"views": 2}, "objective": {"kind": "multi-view-softmax"}},
}


def config(corpus: Corpus, method: str = "vse++", **changes: Any) -> VseTrainConfig:
    chosen = METHODS[method]
    options = {"dimension": 32, "word_dim": 16, "visual": "region", **chosen.get("model", {})}
    return VseTrainConfig.model_validate(
        {
            "data": {
                "features": [corpus.features],
                "captions": corpus.captions,
                "validation_photos": 30,
            },
            "model": {"options": options, "min_count": 1},
            "objective": chosen.get("objective", {}),
            "augmentation": {"regions": "regions", "words": 0.1},
            "batch_size": 30,
            "epochs": 4,
            "milestones": [3],
            "learning_rate": 5e-3,
            "precision": "32-true",
            "accelerator": "cpu",
            "devices": 1,
            "workers": 0,
            **changes,
        }
    )
