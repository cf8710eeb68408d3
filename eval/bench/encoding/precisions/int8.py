"""A VisualSparta's matrix products in integers of eight bits, in torch and for OpenVINO."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from copy import deepcopy

import torch
from torch import Tensor, nn
from torch.ao.quantization import per_channel_dynamic_qconfig, quantize_dynamic
from torch.nn.functional import linear

from sparta.visualsparta.image_terms import ImageTerms
from sparta.visualsparta.model import VOCABULARY_CHUNK, VisualSparta

# Two products of a weight with 8 bits of an input are added in 16 bits, with saturation, where a
# processor has no better instruction: 2 * 255 * 64 is within them.
LARGEST_WEIGHT = 64
LEVELS = 255  # of an input

Inputs = tuple[Tensor, Tensor]  # regions [B, n, d] float16, locations [B, n, 6] float32


class LinearTerms(ImageTerms):
    """`ImageTerms` that matches the vocabulary by linear layers: all products are layers.

    Args:
        model: that reads no labels, in eval mode; its layers are taken over.
        terms: [T] int64, the terms to score.
    """

    def __init__(self, model: VisualSparta, terms: Tensor) -> None:
        super().__init__(model, terms)
        self.matching = nn.ModuleList(map(_layer, self.vectors.split(VOCABULARY_CHUNK)))

    def products(self, hidden: Tensor) -> list[Tensor]:
        """The products with some terms after the others, each [B, n, t]."""
        return [layer(hidden) for layer in self.matching]


class QuantisedLinear(nn.Module):
    """A linear layer as OpenVINO recognises it as one of int8; before, it watches its inputs.

    Args:
        layer: in float32.
    """

    scales: Tensor
    zeros: Tensor

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.weight, self.bias = layer.weight, layer.bias
        self.register_buffer("scales", _scales(layer.weight))
        self.register_buffer("zeros", torch.zeros(len(layer.weight), dtype=torch.int32))
        self.lowest = self.highest = 0.0
        self.watches = True

    def forward(self, values: Tensor) -> Tensor:
        """Inputs are rounded to 256 values between the least and the largest that were watched."""
        if self.watches:
            self.lowest = min(self.lowest, float(values.min()))
            self.highest = max(self.highest, float(values.max()))
            return linear(values, self.weight, self.bias)
        step = (self.highest - self.lowest) / LEVELS or 1.0
        zero = round(-self.lowest / step)
        rounded = torch.fake_quantize_per_tensor_affine(values, step, zero, 0, LEVELS)
        weight = torch.fake_quantize_per_channel_affine(
            self.weight, self.scales, self.zeros, 0, -LARGEST_WEIGHT, LARGEST_WEIGHT
        )
        return linear(rounded, weight, self.bias)


def dynamic_int8(module: LinearTerms) -> nn.Module:
    """The module in torch's int8: weights by output, inputs by the range of each batch."""
    kinds = {nn.Linear: per_channel_dynamic_qconfig}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch announces that another package will do this
        quantised: nn.Module = quantize_dynamic(module, kinds, dtype=torch.qint8)
    return quantised


@torch.inference_mode()
def static_int8(module: LinearTerms, examples: Iterable[Inputs]) -> nn.Module:
    """The module for OpenVINO's int8: weights by output, inputs by the range in some examples."""
    module = deepcopy(module)
    _quantise(module)
    for regions, locations in examples:
        module(regions, locations)
    for layer in module.modules():
        if isinstance(layer, QuantisedLinear):
            layer.watches = False
    return module


def _layer(vectors: Tensor) -> nn.Linear:
    layer = nn.Linear(vectors.shape[1], len(vectors), bias=False)
    layer.weight = nn.Parameter(vectors.detach().clone())
    return layer


def _scales(weight: Tensor) -> Tensor:
    """[n] of the rows of a weight, of which the largest number becomes the largest integer."""
    return weight.detach().abs().amax(dim=1).clamp(min=1e-8) / LARGEST_WEIGHT


def _quantise(module: nn.Module) -> None:
    """Put a `QuantisedLinear` in the place of every linear layer."""
    for name, child in module.named_children():
        if isinstance(child, nn.Linear):
            setattr(module, name, QuantisedLinear(child))
        else:
            _quantise(child)
