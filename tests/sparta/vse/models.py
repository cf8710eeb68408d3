"""Dense models small enough to be computed by hand, every part of which matters to the result."""

from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import BertModel

from sparta.features.record import FeatureSource
from sparta.vse.batch import RegionBatch, TextBatch, collate_regions, collate_texts
from sparta.vse.init import from_bert, from_captions
from sparta.vse.model import VseModel
from tests import tiny

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
