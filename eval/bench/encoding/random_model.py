"""A model of a given size with random weights, and random inputs for it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from transformers import BertConfig

from sparta.visualsparta.collate import ImageBatch
from sparta.visualsparta.config import VisualSpartaConfig
from sparta.visualsparta.model import TermCounts, VisualSparta, count_terms

HEAD = 64  # numbers of an attention head
CAPTION = 12  # word pieces of a caption


@dataclass(frozen=True)
class ModelSize:
    """The size of a model and its images; by default the paper's (section 4.3).

    Attributes:
        layers: of the transformer.
        width: of its hidden states, a multiple of 64.
        vocabulary: terms.
        regions: of an image.
        label_tokens: of an image.
        feature_dim: numbers of a visual vector.
    """

    layers: int = 12
    width: int = 768
    vocabulary: int = 30_522
    regions: int = 50
    label_tokens: int = 70
    feature_dim: int = 2048


def make_model(size: ModelSize) -> VisualSparta:
    """A model with random weights, in eval mode."""
    torch.manual_seed(0)
    encoder = BertConfig(
        vocab_size=size.vocabulary,
        hidden_size=size.width,
        num_hidden_layers=size.layers,
        num_attention_heads=size.width // HEAD,
        intermediate_size=4 * size.width,
    )
    model = VisualSparta(VisualSpartaConfig(encoder.to_dict(), size.feature_dim))
    model.eval()
    return model


def make_images(size: ModelSize, count: int, device: torch.device) -> ImageBatch:
    """Images with all regions and labels, so that none is padded, in the device's memory."""
    n, k = size.regions, size.label_tokens
    return ImageBatch(
        torch.rand(count, n, size.feature_dim).half(),
        torch.rand(count, n, 6),
        torch.ones(count, n, dtype=torch.bool),
        torch.randint(size.vocabulary, (count, k)),
        torch.ones(count, k, dtype=torch.bool),
        torch.randint(n, (count, k)),
    ).to(device)


def make_captions(size: ModelSize, count: int, device: torch.device) -> TermCounts:
    """One caption for each of `count` images."""
    ids = torch.randint(size.vocabulary, (count, CAPTION), device=device)
    return count_terms(ids, torch.ones_like(ids, dtype=torch.bool))
