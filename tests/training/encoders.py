"""Dual encoders with random weights in a folder, small enough to be made in a test."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import (
    AlignConfig,
    AlignModel,
    ChineseCLIPConfig,
    ChineseCLIPImageProcessorPil,
    ChineseCLIPModel,
    CLIPConfig,
    CLIPImageProcessorPil,
    CLIPModel,
    EfficientNetImageProcessorPil,
    PreTrainedTokenizerFast,
    Siglip2Config,
    Siglip2ImageProcessorPil,
    Siglip2Model,
    SiglipConfig,
    SiglipImageProcessorPil,
    SiglipModel,
)

SIDE = 32
LENGTH = 12  # tokens
WORDS = ["[PAD]", "[UNK]", "[BOS]", "[EOS]", "a", "red", "green", "blue", "photo", "of", "and"]
SMALL: dict[str, Any] = {
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
}
TEXT = SMALL | {
    "vocab_size": len(WORDS),
    "max_position_embeddings": LENGTH,
    "bos_token_id": 2,
    "eos_token_id": 3,
    "pad_token_id": 0,
}
VISION = SMALL | {"image_size": SIDE, "patch_size": 8}


def clip(folder: Path) -> Path:
    config = CLIPConfig(text_config=TEXT, vision_config=VISION, projection_dim=8)
    size: dict[str, Any] = {"size": {"shortest_edge": SIDE}, "crop_size": SIDE}
    return _save(folder, CLIPModel(config), CLIPImageProcessorPil(**size))


def siglip(folder: Path) -> Path:
    config = SiglipConfig(text_config=TEXT | {"projection_size": 16}, vision_config=VISION)
    size: dict[str, Any] = {"size": {"height": SIDE, "width": SIDE}}
    return _save(folder, SiglipModel(config), SiglipImageProcessorPil(**size))


def siglip2(folder: Path) -> Path:
    """In NaFlex form."""
    vision = {name: VISION[name] for name in VISION if name != "image_size"}
    text = TEXT | {"projection_size": 16}
    config = Siglip2Config(text_config=text, vision_config=vision | {"num_patches": 16})
    processor = Siglip2ImageProcessorPil(patch_size=8, max_num_patches=16)
    return _save(folder, Siglip2Model(config), processor)


def chinese_clip(folder: Path) -> Path:
    config = ChineseCLIPConfig(text_config=TEXT, vision_config=VISION, projection_dim=8)
    size: dict[str, Any] = {"size": {"shortest_edge": SIDE}, "crop_size": SIDE}
    return _save(folder, ChineseCLIPModel(config), ChineseCLIPImageProcessorPil(**size))


def align(folder: Path) -> Path:
    vision = {"image_size": SIDE, "width_coefficient": 0.25, "depth_coefficient": 0.2}
    vision |= {"hidden_dim": 64}
    config = AlignConfig(text_config=TEXT, vision_config=vision, projection_dim=80)
    size: dict[str, Any] = {"size": {"height": SIDE, "width": SIDE}, "do_center_crop": False}
    return _save(folder, AlignModel(config), EfficientNetImageProcessorPil(**size), std=1.0)


ENCODERS: dict[str, Callable[[Path], Path]] = {
    "clip": clip,
    "siglip": siglip,
    "siglip2": siglip2,
    "chinese-clip": chinese_clip,
    "align": align,
}


def _save(folder: Path, model: Any, processor: Any, std: float = 0.3) -> Path:
    """Large random weights, so that photos and sentences differ."""
    torch.manual_seed(1)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=std)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    _tokenizer().save_pretrained(folder)
    return folder


def _tokenizer() -> PreTrainedTokenizerFast:
    made = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, "[UNK]"))
    made.normalizer = normalizers.Lowercase()
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.post_processor = processors.TemplateProcessing(
        single="[BOS] $A [EOS]", special_tokens=[("[BOS]", 2), ("[EOS]", 3)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=made,
        model_max_length=LENGTH,
        pad_token="[PAD]",
        unk_token="[UNK]",
        bos_token="[BOS]",
        eos_token="[EOS]",
    )
