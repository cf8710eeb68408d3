"""Tiny vision networks with random weights, saved as checkpoints."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers as hf

SIDE = 32


SMALL: dict[str, Any] = {"hidden_size": 16, "intermediate_size": 32, "image_size": SIDE}
SMALL |= {"num_hidden_layers": 2, "num_attention_heads": 2, "patch_size": 8}


RESNET: dict[str, Any] = {
    "embedding_size": 8,
    "hidden_sizes": [8, 12],
    "depths": [1, 1],
    "num_labels": 4,
    "id2label": {0: "background", 1: "dog, hound", 2: "cat", 3: "boat, ship"},
}


def clip() -> hf.CLIPModel:
    sizes: dict[str, Any] = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1}
    sizes |= {"num_attention_heads": 2, "vocab_size": 50}
    text = hf.CLIPTextConfig(**sizes, bos_token_id=0, eos_token_id=1)
    vision = hf.CLIPVisionConfig(**SMALL)
    return hf.CLIPModel(hf.CLIPConfig(text_config=text, vision_config=vision, projection_dim=16))


def save(model: Any, folder: Path, **options: Any) -> Path:
    torch.manual_seed(0)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    model.save_pretrained(folder)
    given: dict[str, Any] = {"size": {"height": SIDE, "width": SIDE}, "do_center_crop": False}
    hf.CLIPImageProcessor(**given | options).save_pretrained(folder)
    return folder


def prepared(pixels: np.ndarray) -> torch.Tensor:
    """What the checkpoints that `save` writes ask for, said once more in numpy."""
    mean, std = hf.CLIPImageProcessor().image_mean, hf.CLIPImageProcessor().image_std
    values = (pixels / 255 - np.array(mean)) / np.array(std)
    return torch.from_numpy(values.transpose(0, 3, 1, 2).astype(np.float32))


def photos(count: int = 2, side: int = SIDE) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (count, side, side, 3), np.uint8)
