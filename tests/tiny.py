"""A model, a tokenizer and images small enough to be computed by hand."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from transformers import BertConfig

from sparta.features.record import FeatureSource, ImageFeatures
from sparta.tokenizer import TermTokenizer
from sparta.visualsparta.batch import ImageBatch, ImagePadder
from sparta.visualsparta.init import from_config
from sparta.visualsparta.model import VisualSparta

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = ["a", "brown", "dog", "cat", "red", "ball", "on", "the", "beach", "run", "##s", "##ning"]
WORDS += ["two", "man", "hat", "green", "tree", "by", "sea"]
VOCABULARY = [*SPECIAL, "[unused0]", *WORDS]
DIMENSION = 5


def tokenizer() -> TermTokenizer:
    ids = {term: i for i, term in enumerate(VOCABULARY)}
    made = Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.add_special_tokens(SPECIAL)
    return TermTokenizer(made)


def source(dimension: int = DIMENSION) -> FeatureSource:
    return FeatureSource("region", "detector", "abc", dimension, 64)


def encoder(**options: Any) -> BertConfig:
    """Large random weights, so that every part matters to the result."""
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    sizes |= {"intermediate_size": 37, "max_position_embeddings": 40}
    return BertConfig(vocab_size=len(VOCABULARY), initializer_range=0.4, **{**sizes, **options})


def model(**options: Any) -> VisualSparta:
    torch.manual_seed(3)
    made = from_config(encoder(), tokenizer(), source(), **options).eval()
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            if "bias" in name or "norm" in name.lower():
                parameter.add_(0.2 * torch.randn_like(parameter))
        made.region_projection.weight.normal_(std=0.4)
        made.query_embedding.weight.normal_(std=0.4)
        made.bias.fill_(-2.0)
    return made


def boxes(n: int, rng: np.random.Generator) -> NDArray[np.float32]:
    corners = np.sort(rng.random((2, n, 2), np.float32), axis=0)
    return np.concatenate([corners[0], corners[1]], axis=1)


def image(
    regions: int, labels: tuple[str, ...] = (), seed: int = 0, dimension: int = DIMENSION
) -> ImageFeatures:
    """Random regions, the first of which have the given labels; every other one is "brown"."""
    rng = np.random.default_rng((seed, regions))
    labels = (*labels, *[""] * (regions - len(labels)))
    return ImageFeatures(
        f"{seed}-{regions}.jpg",
        np.abs(rng.standard_normal((regions, dimension))).astype(np.float16),
        boxes(regions, rng),
        labels,
        tuple("brown" if label and i % 2 else "" for i, label in enumerate(labels)),
        640,
        480,
    )


def images() -> list[ImageFeatures]:
    return [
        image(3, ("dog", "red ball"), 1),
        image(1, seed=2),
        image(5, ("", "runs", "sea", "man"), 3),
        image(4, ("tree",), 4),
    ]


def batch(of: list[ImageFeatures] | None = None) -> ImageBatch:
    return ImagePadder(tokenizer(), 50, 35)(of or images())
