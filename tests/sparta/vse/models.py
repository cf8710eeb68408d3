"""Dense models small enough to be computed by hand; padded sets and slow arithmetic of one."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import BertModel

from sparta.features.record import FeatureSource
from sparta.vse.aggregators import make_pooling
from sparta.vse.batch import RegionBatch, TextBatch, collate_regions, collate_texts
from sparta.vse.init import from_bert, from_captions
from sparta.vse.model import VseModel
from sparta.vse.pooling import Pooling
from tests import tiny
from tests.sparta.vse.published import states

CAPTIONS = ["a brown dog on the beach", "two men and a red ball, by the sea", "a man's hat"] * 4
SENTENCES = ["a dog", "the red ball on the beach by the sea", "", "zebra man", "hat"]
SMALL: dict[str, Any] = {"dimension": 8, "word_dim": 6}


def shaken(model: VseModel) -> VseModel:
    """Away from starting values that would hide a part: zero biases, means of 0, variances of 1."""
    torch.manual_seed(5)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.2 * torch.randn_like(parameter)
        for module in model.modules():
            if isinstance(module, nn.BatchNorm1d):
                assert module.running_mean is not None
                assert module.running_var is not None
                module.running_mean.normal_()
                module.running_var.uniform_(0.5, 2)
    return model.eval()


def bigru(source: FeatureSource | None = None, **options: Any) -> VseModel:
    torch.manual_seed(3)
    return shaken(from_captions(CAPTIONS, source or tiny.source(), **{**SMALL, **options}))


def save_bert(folder: Path, **options: Any) -> Path:
    torch.manual_seed(4)
    BertModel(tiny.encoder(**options)).save_pretrained(folder)
    tiny.tokenizer().save(folder)
    return folder


def bert(folder: Path, **options: Any) -> VseModel:
    return shaken(from_bert(save_bert(folder), tiny.source(), dimension=8, **options))


def regions() -> RegionBatch:
    """Four images with 3, 1, 5 and 4 regions."""
    return collate_regions(tiny.images())


def texts(model: VseModel) -> TextBatch:
    tokenizer = model.tokenizer
    assert tokenizer is not None
    return collate_texts([tokenizer.encode(text) for text in SENTENCES], tokenizer.pad_id)


# ---- poolings ------------------------------------------------------------------------------------

DIMENSION = 8
LENGTHS = (1, 4, 7, 2)  # of the sets that are compared with a reference
JUNK = [0.0, 7.0, -1e30, 1e30, math.nan, math.inf, -math.inf]


def make(name: str, seed: int = 0, **options: Any) -> Pooling:
    """A pooling none of whose parameters stands at a starting value that hides it."""
    torch.manual_seed(seed)
    pooling = make_pooling(name, DIMENSION, **options)
    with torch.no_grad():
        for parameter in pooling.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
        for module in pooling.modules():
            if isinstance(module, nn.BatchNorm1d):
                # Small: graph convolutions in a row are powers of three of what they are given.
                module.weight.mul_(0.1)
                module.running_mean = torch.randn(DIMENSION)
                module.running_var = torch.rand(DIMENSION) + 0.5
    return pooling


def padded(
    lengths: list[int], extra: int = 0, junk: float = 0.0, seed: int = 0
) -> tuple[Tensor, Tensor]:
    """Random sets of the given sizes, the same whatever stands behind them and how far."""
    features = torch.full((len(lengths), max(lengths) + extra, DIMENSION), junk)
    for i, length in enumerate(lengths):
        generator = torch.Generator().manual_seed(seed + i)
        features[i, :length] = 2 * torch.randn(length, DIMENSION, generator=generator)
    return features, torch.tensor(lengths)


def assert_computes(
    pooling: Pooling, reference: Callable[[Tensor], Tensor], lengths: tuple[int, ...] = LENGTHS
) -> None:
    """Every row of a padded batch is what the reference makes of that set [n, d] alone."""
    features, sizes = padded(list(lengths), extra=2, junk=5.0)
    found = pooling(features, sizes)
    assert found.dtype == torch.float32
    for row, elements, length in zip(found, features, lengths, strict=True):
        with torch.no_grad():
            expected = reference(elements[:length])
        torch.testing.assert_close(row, expected, rtol=2e-4, atol=1e-5)


def softmax(logits: Tensor) -> Tensor:
    """Over the elements of a set."""
    return logits.exp() / logits.exp().sum(dim=0)


def affine(linear: nn.Linear, rows: Tensor) -> Tensor:
    found = rows @ linear.weight.T
    return found if linear.bias is None else found + linear.bias


def normalised(norm: Any, rows: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
    """What a batch norm makes of elements."""
    return (rows - mean) / (variance + norm.eps).sqrt() * norm.weight + norm.bias


def moments(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and biased variance of every dimension."""
    return rows.mean(dim=0), (rows - rows.mean(dim=0)).square().mean(dim=0)


def gru_states(gru: nn.GRU, inputs: Tensor) -> Tensor:
    weights = {f"gru.{name}": parameter.detach() for name, parameter in gru.named_parameters()}
    return states(weights, "gru", inputs)
