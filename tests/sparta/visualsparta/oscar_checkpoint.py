"""Checkpoints in the layout of Oscar's files, with random weights."""

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import BertConfig, BertForMaskedLM

from sparta.visualsparta.init_oscar import PICKLED
from tests import tiny

WIDTH = tiny.DIMENSION + 6
HEADS = 4


def config(**fields: Any) -> dict[str, Any]:
    """A BERT's fields, others of its time, and those of images."""
    bert: dict[str, Any] = {"vocab_size": len(tiny.VOCABULARY), "hidden_size": 32}
    bert |= {"num_hidden_layers": 2, "num_attention_heads": HEADS, "intermediate_size": 37}
    bert |= {"max_position_embeddings": 40, "type_vocab_size": 2, "layer_norm_eps": 1e-12}
    bert |= {"attention_probs_dropout_prob": 0.1, "hidden_dropout_prob": 0.1, "hidden_act": "gelu"}
    others: dict[str, Any] = {
        "pruned_heads": {},
        "finetuning_task": None,
        "torchscript": False,
        "num_labels": 2,
    }
    images = {"img_feature_dim": WIDTH, "img_feature_type": "faster_r-cnn", "loss_type": "sfmx"}
    return {**bert, **others, **images, **fields}


def weights(norm: bool, width: int = WIDTH) -> dict[str, Tensor]:
    """All that a file may hold, heads too; `norm`: with the image LayerNorm."""
    torch.manual_seed(5)
    fields = {k: v for k, v in config().items() if k in BertConfig().to_dict()}
    shapes = {k: v.shape for k, v in BertForMaskedLM(BertConfig(**fields)).state_dict().items()}
    shapes |= {"bert.img_embedding.weight": torch.Size([32, width])}
    shapes |= {"bert.img_embedding.bias": torch.Size([32])}
    shapes |= {"bert.pooler.dense.weight": torch.Size([32, 32])}
    shapes |= {"classifier.weight": torch.Size([2, 32])}
    shapes |= {"cls.seq_relationship.weight": torch.Size([3, 32])}
    if norm:
        shapes |= {f"bert.LayerNorm.{part}": torch.Size([32]) for part in ("weight", "bias")}
    return {key: 0.4 * torch.randn(shape) for key, shape in shapes.items()}


def write(folder: Path, state: dict[str, Tensor], **fields: Any) -> Path:
    """A folder of weights, configuration with these fields, and `tiny`'s vocabulary."""
    folder.mkdir(exist_ok=True)
    torch.save(state, folder / PICKLED)
    (folder / "config.json").write_text(json.dumps(config(**fields)))
    (folder / "vocab.txt").write_text("\n".join(tiny.VOCABULARY) + "\n", encoding="utf-8")
    return folder
