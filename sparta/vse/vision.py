"""A vision network inside a dense model, so that it can be fine-tuned with it."""

from __future__ import annotations

import inspect
from typing import Any, Self

import torch
from torch import Tensor, nn

from sparta.errors import InputError
from sparta.features.extract.networks.backbone import patch_side
from sparta.features.extract.networks.pretrained import Preprocessing
from sparta.vse.config import VisionVectors
from sparta.vse.encoders import build_network


class Vision(nn.Module):
    """Photos → a set of vectors: the network's output, or the regions that extraction stores.

    The published code of GPO and VSE+2AD pools the network's output: the cells of a CNN's feature
    map, or all tokens of a transformer with its CLS. Extraction stores the cells or patches without
    CLS (in float16) and their mean behind them, so that a model that takes these can start from
    stored features and go on with the network itself.

    Batch norms keep the statistics they were pretrained with, in training too, as in GPO's
    published code.

    Args:
        config: configuration of a transformers vision network, a dict with `model_type`.
        vectors: "output" or "stored".

    Attributes:
        mean: [3, 1, 1] float32, subtracted from pixel values of 0 to 255.
        std: [3, 1, 1] float32, which the difference is divided by.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, config: dict[str, Any], vectors: VisionVectors) -> None:
        super().__init__()
        self.vectors = vectors
        self.network = vision_part(build_network(config))
        self.register_buffer("mean", torch.zeros(3, 1, 1))
        self.register_buffer("std", torch.ones(3, 1, 1))
        # Where position embeddings are stretched to other sizes only on demand, they always are.
        known = inspect.signature(self.network.forward).parameters
        self._options = {name: True for name in ("interpolate_pos_encoding",) if name in known}

        self.train()

    def train(self, mode: bool = True) -> Self:
        """As in torch, but for the batch norms."""
        super().train(mode)
        for part in self.modules():
            if isinstance(part, nn.modules.batchnorm._BatchNorm):
                part.eval()
        return self

    def prepare_as(self, preprocessing: Preprocessing) -> None:
        """Normalise pixels as a checkpoint does: (pixels * scale - mean) / std."""
        self.mean.copy_(preprocessing.mean / preprocessing.scale)
        self.std.copy_(preprocessing.std / preprocessing.scale)

    def forward(self, pixels: Tensor) -> Tensor:
        """[B, 3, H, W] uint8 RGB → [B, n, d] float, cells row by row.

        Raises:
            InputError: if stored regions are wanted, and the network's tokens form no square grid
                at this size.
        """
        values = (pixels.float() - self.mean) / self.std
        hidden = self.network(pixel_values=values, **self._options).last_hidden_state
        tokens = hidden.flatten(2).transpose(1, 2) if hidden.ndim == 4 else hidden
        if self.vectors == "output":
            return tokens
        cells = tokens if hidden.ndim == 4 else self._patches(tokens, *pixels.shape[2:])
        return torch.cat([cells, cells.mean(dim=1, keepdim=True)], dim=1)

    def _patches(self, hidden: Tensor, height: int, width: int) -> Tensor:
        """[B, prefix + patches, d] → [B, patches, d]."""
        rows = patch_side(hidden.shape[1], width, self.network.config)
        if rows is None:
            raise InputError(
                f"vision: {hidden.shape[1]} tokens for {width} x {height} pixels form no square "
                "grid of patches; use a size the network was made for"
            )
        return hidden[:, -rows * rows :]


def vision_part(network: nn.Module) -> Any:
    """A network of photos itself, or the half of a two-sided one (CLIP) that sees them."""
    return getattr(network, "vision_model", network)
