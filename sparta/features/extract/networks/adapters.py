"""Networks of transformers that take photos, or give regions, in a way of their own."""

from __future__ import annotations

from math import isqrt
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from sparta.errors import InputError

REFUSED = {
    "vjepa2": "V-JEPA 2 reads videos",
    "vit_mae": "ViT-MAE reads a random quarter of a photo's patches",
}


def check_model_type(name: str, model_type: str | None) -> None:
    """Check that a network of this type gives each photo its regions.

    Raises:
        InputError: if it does not.
    """
    if reason := REFUSED.get(model_type or ""):
        raise InputError(f"{name}: {reason}; take a network for whole photos, such as DINOv3")


def adapt(vision: Any) -> Any:
    """A vision network, wrapped where it is not called with pixels or gives no plain layout.

    Returns:
        A module called with `pixel_values` [B, 3, side, side], whose `last_hidden_state` is
        [B, d, rows, columns], or [B, tokens, d] with the patches last.
    """
    adapter = ADAPTERS.get(vision.config.model_type)
    return adapter(vision) if adapter else vision


class NaflexVision(nn.Module):
    """SigLIP 2 in NaFlex form (Tschannen et al., 2025), which is called with patches.

    Args:
        vision: a `Siglip2VisionModel`.
    """

    def __init__(self, vision: Any) -> None:
        super().__init__()
        self.vision = vision
        self.config = vision.config

    def forward(self, pixel_values: Tensor) -> SimpleNamespace:
        """The patches of square photos, [B, cells, d], row by row.

        Raises:
            ValueError: if the side is no multiple of the patches' side.
        """
        batch, channels, side, _ = pixel_values.shape
        cells, rest = divmod(side, self.config.patch_size)
        if rest:
            raise ValueError(f"it needs a multiple of {self.config.patch_size}")
        parts = pixel_values.reshape(batch, channels, cells, side // cells, cells, side // cells)
        patches = parts.permute(0, 2, 4, 3, 5, 1).reshape(batch, cells * cells, -1)
        found = self.vision(
            pixel_values=patches,
            pixel_attention_mask=torch.ones(patches.shape[:2], device=patches.device).int(),
            spatial_shapes=torch.tensor([[cells, cells]] * batch, device=patches.device),
        )
        return SimpleNamespace(last_hidden_state=found.last_hidden_state)


class TokensOfCells(nn.Module):
    """DINOv3's ConvNeXt (Siméoni et al., 2025), whose tokens are the mean and the cells.

    Args:
        vision: a `DINOv3ConvNextModel`.
    """

    def __init__(self, vision: Any) -> None:
        super().__init__()
        self.vision = vision
        self.config = vision.config

    def forward(self, pixel_values: Tensor) -> SimpleNamespace:
        """The cells of square photos, [B, d, rows, columns]."""
        cells = self.vision(pixel_values=pixel_values).last_hidden_state[:, 1:]
        rows = isqrt(cells.shape[1])
        return SimpleNamespace(last_hidden_state=cells.transpose(1, 2).unflatten(2, (rows, rows)))


ADAPTERS = {"siglip2_vision_model": NaflexVision, "dinov3_convnext": TokensOfCells}
