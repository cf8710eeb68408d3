"""Tiny vision networks and detectors with random weights, saved as checkpoints."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers as hf
from PIL import Image

from tests import tiny

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


def swin() -> hf.SwinModel:
    sizes: dict[str, Any] = {"image_size": SIDE, "patch_size": 4, "embed_dim": 8, "window_size": 2}
    return hf.SwinModel(hf.SwinConfig(**sizes, depths=[1, 1], num_heads=[1, 1]))


def efficientnet() -> hf.EfficientNetModel:
    config = hf.EfficientNetConfig(width_coefficient=0.25, depth_coefficient=0.25, hidden_dim=320)
    return hf.EfficientNetModel(config)


def mobilevit() -> hf.MobileViTModel:
    sizes: dict[str, Any] = {"hidden_sizes": [8, 12, 16], "num_attention_heads": 2}
    sizes |= {"neck_hidden_sizes": [4, 4, 8, 8, 12, 12, 16]}
    return hf.MobileViTModel(hf.MobileViTConfig(image_size=64, **sizes))


def levit() -> hf.LevitModel:
    sizes: dict[str, Any] = {"hidden_sizes": [16, 24, 32], "num_attention_heads": [1, 2, 2]}
    sizes |= {"depths": [1, 1, 1], "key_dim": [8, 8, 8]}
    return hf.LevitModel(hf.LevitConfig(image_size=128, **sizes))


def dinov3_convolutions() -> hf.DINOv3ConvNextModel:
    config = hf.DINOv3ConvNextConfig(hidden_sizes=[8, 8, 12, 16], depths=[1, 1, 1, 1])
    return hf.DINOv3ConvNextModel(config)


def siglip2() -> hf.Siglip2Model:
    sizes = {name: SMALL[name] for name in SMALL if name != "image_size"}
    words = {"vocab_size": 50, "max_position_embeddings": 8, "projection_size": 16}
    text = {name: SMALL[name] for name in SMALL if not name.endswith("_size")} | words
    text |= {"hidden_size": 16, "intermediate_size": 32}
    config = hf.Siglip2Config(vision_config=sizes | {"num_patches": 16}, text_config=text)
    return hf.Siglip2Model(config)


def siglip2_vision() -> hf.Siglip2VisionModel:
    vision: Any = siglip2().config.vision_config
    return hf.Siglip2VisionModel(vision)


def blip() -> hf.BlipForConditionalGeneration:
    words = {"vocab_size": 50, "num_hidden_layers": 1, "num_attention_heads": 2}
    words |= {"hidden_size": 16, "intermediate_size": 32, "encoder_hidden_size": 16}
    config = hf.BlipConfig(text_config=words, vision_config=SMALL, projection_dim=16)
    return hf.BlipForConditionalGeneration(config)


def vjepa2() -> hf.VJEPA2Model:
    sizes: dict[str, Any] = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    sizes |= {f"pred_{name}": value for name, value in sizes.items()}
    return hf.VJEPA2Model(hf.VJEPA2Config(crop_size=SIDE, patch_size=8, **sizes))


NETWORKS: dict[str, Callable[[], Any]] = {
    "vit": lambda: hf.ViTModel(hf.ViTConfig(**SMALL), add_pooling_layer=False),
    "dinov2-registers": lambda: hf.Dinov2WithRegistersModel(hf.Dinov2WithRegistersConfig(**SMALL)),
    "siglip": lambda: hf.SiglipVisionModel(hf.SiglipVisionConfig(**SMALL)),
    "siglip2": siglip2,
    "siglip2-vision": siglip2_vision,
    "blip": blip,
    "blip-vision": lambda: hf.BlipVisionModel(hf.BlipVisionConfig(**SMALL)),
    "clip": clip,
    "swin": swin,
    "dinov3": lambda: hf.DINOv3ViTModel(hf.DINOv3ViTConfig(**SMALL, num_register_tokens=4)),
    "dinov3-convolutions": dinov3_convolutions,
    "resnet": lambda: hf.ResNetModel(hf.ResNetConfig(**RESNET)),
    "classifier": lambda: hf.ResNetForImageClassification(hf.ResNetConfig(**RESNET)),
    "mobilenet": lambda: hf.MobileNetV2Model(
        hf.MobileNetV2Config(depth_multiplier=0.35, image_size=SIDE)
    ),
    "mobilevit": mobilevit,
    "levit": levit,
    "efficientnet": efficientnet,
    "vit-mae": lambda: hf.ViTMAEModel(hf.ViTMAEConfig(**SMALL)),
    "vjepa2": vjepa2,
    "bert": lambda: hf.BertModel(tiny.encoder()),
}


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
