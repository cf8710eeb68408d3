"""What one would run instead of a sparse model: the image tower of a CLIP."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import CLIPVisionConfig, CLIPVisionModelWithProjection

SIDE, BATCH = 224, 16
MEAN, DEVIATION = 0.45, 0.27  # of the channels' means and deviations; time does not depend on them

Tower: TypeAlias = Callable[[NDArray[np.uint8]], NDArray[np.float32]]


def clip_tower() -> Tower:
    """ViT-B/32 (the configuration's default) with random weights, in float32 in torch.

    Returns:
        A function of [B, 224, 224, 3] pixels to [B, 512] embeddings.
    """
    torch.manual_seed(0)
    network: Any = CLIPVisionModelWithProjection(CLIPVisionConfig()).eval()

    def encode(pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        values = torch.from_numpy(pixels).permute(0, 3, 1, 2).float() / 255
        with torch.inference_mode():
            embeddings = network(pixel_values=(values - MEAN) / DEVIATION).image_embeds
        found: NDArray[np.float32] = embeddings.numpy()
        return found

    return encode
