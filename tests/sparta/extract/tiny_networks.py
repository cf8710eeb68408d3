"""Tiny vision networks and detectors with random weights, saved as checkpoints."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers as hf
from PIL import Image

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


def noisy(folder: Path, *names: str, size: tuple[int, int] = (30, 20)) -> Path:
    """A folder with photos of noise, each its own."""
    for seed, name in enumerate(names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        noise = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), np.uint8)
        Image.fromarray(noise).save(folder / name)
    return folder


# ---- detectors of four families ------------------------------------------------------------------

QUERIES = 12
LABELS = {0: "N/A", 1: "dog", 2: " traffic light ", 3: "LABEL_3", 4: "boat"}
WORDS = ["", "dog", "traffic light", "", "boat"]
COMMON: dict[str, Any] = {"num_labels": 5, "id2label": LABELS}
TRANSFORMER: dict[str, Any] = COMMON | {"d_model": 16, "num_queries": QUERIES}
for _part, _layers in (("encoder", 1), ("decoder", 2)):
    _sizes = {"layers": _layers, "attention_heads": 2, "ffn_dim": 16}
    TRANSFORMER |= {f"{_part}_{name}": size for name, size in _sizes.items()}
# An aspect kept, as most detectors have it.
ASPECT: dict[str, Any] = {"size": {"shortest_edge": 48, "longest_edge": 80}}


def resnet_backbone() -> dict[str, Any]:
    backbone = hf.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], out_features=["stage2"]
    )
    return {"backbone_config": backbone, "backbone": None, "use_timm_backbone": False}


def detr() -> tuple[Any, Any]:
    config = hf.DetrConfig(**TRANSFORMER, **resnet_backbone())
    return hf.DetrForObjectDetection(config), hf.DetrImageProcessor(**ASPECT)


def conditional_detr() -> tuple[Any, Any]:
    config = hf.ConditionalDetrConfig(**TRANSFORMER, **resnet_backbone())
    return hf.ConditionalDetrForObjectDetection(config), hf.ConditionalDetrImageProcessor(**ASPECT)


def yolos() -> tuple[Any, Any]:
    sizes: dict[str, Any] = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    sizes |= {"intermediate_size": 16, "image_size": [48, 64], "num_detection_tokens": QUERIES}
    config = hf.YolosConfig(**sizes, **COMMON)
    return hf.YolosForObjectDetection(config), hf.YolosImageProcessor(**ASPECT)


def rt_detr() -> tuple[Any, Any]:
    sizes: dict[str, Any] = {"embedding_size": 8, "hidden_sizes": [8, 8, 16, 16]}
    sizes |= {"layer_type": "basic", "out_features": ["stage2", "stage3", "stage4"]}
    backbone = hf.RTDetrResNetConfig(**sizes, depths=[1, 1, 1, 1])
    parts: dict[str, Any] = {"encoder_hidden_dim": 16, "encoder_in_channels": [8, 16, 16]}
    parts |= {"decoder_in_channels": [16, 16, 16], "num_denoising": 0, "backbone_config": backbone}
    processor = hf.RTDetrImageProcessor(size={"height": 64, "width": 64})
    return hf.RTDetrForObjectDetection(hf.RTDetrConfig(**TRANSFORMER, **parts)), processor


FAMILIES: dict[str, Callable[[], tuple[Any, Any]]] = {
    "detr": detr,
    "conditional-detr": conditional_detr,
    "yolos": yolos,
    "rt-detr": rt_detr,
}


def save_detector(folder: Path, family: str = "detr", seed: int = 0) -> Path:
    """A detector whose boxes, classes and confidences differ from query to query."""
    torch.manual_seed(seed)
    model, processor = FAMILIES[family]()
    for name, parameter in model.named_parameters():
        if parameter.ndim > 1:  # not the scales of the normalisations
            queries = "query" in name or "detection_tokens" in name
            std = 3.0 if queries else 1.0 if "class" in name else 0.4
            torch.nn.init.normal_(parameter, std=std)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


def picture(width: int, height: int, seed: int = 0) -> Image.Image:
    """Coarse noise: something is there to see at any size."""
    coarse = np.random.default_rng(seed).integers(0, 256, (4, 5, 3), np.uint8)
    return Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)
