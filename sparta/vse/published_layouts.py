"""What the code published with VSE∞, VSE+2AD and MV-VSE calls the weights of its models."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from sparta.errors import InputError


@dataclass(frozen=True)
class CheckpointLayout:
    """The weights of one repository; its keys begin with `img_enc.` or `txt_enc.` here.

    Attributes:
        mark: beginning of keys that no other layout has.
        fields: of `VseConfig`, as the published code computes.
        projection: the linear layer whose shape gives the widths of features and joint space.
        names: beginnings of a `VseModel`'s keys, as patterns, and what they are called there.
        masked: whether the words' embedding has a row for `<mask>` behind the vocabulary's own.
    """

    mark: str
    fields: Mapping[str, Any]
    projection: str
    names: Mapping[str, str]
    masked: bool = True

    def published(self, key: str) -> str:
        """What a key of a `VseModel` is called there; the key itself if it has no counterpart."""
        for pattern, name in self.names.items():
            if match := re.match(pattern + r"\.", key):
                return match.expand(name) + key[match.end() - 1 :]
        return key


_WORDS = {r"word_encoder\.embedding": "txt_enc.embed", r"word_encoder\.gru": "txt_enc.rnn"}


def _single_view(pooling: str, text_projection: str) -> dict[str, str]:
    return {
        r"visual_projections\.0\.linear": "img_enc.fc",
        r"visual_projections\.0\.mlp\.0": "img_enc.mlp.layers.0",
        r"visual_projections\.0\.mlp\.1": "img_enc.mlp.bns.0",
        r"visual_projections\.0\.mlp\.3": "img_enc.mlp.layers.1",
        r"visual_poolings\.0": f"img_enc.{pooling}",
        r"text_encoder": "txt_enc.bert",
        r"text_projection": f"txt_enc.{text_projection}",
        r"text_pooling": f"txt_enc.{pooling}",
        **_WORDS,
    }


# What the published evaluation pads to, on which ADPOOL's published code depends: all images have
# 36 regions; captions come in batches of 125, whose longest has 25 tokens (the median over COCO's
# val2017 captions in their order, start and end included: 24 words, or 25 word pieces).
REGIONS, TOKENS = 36, 25

LAYOUTS = (
    CheckpointLayout(
        mark="img_enc.gpool.",
        fields={
            "name": "vse-inf",
            "text": "bigru",
            "visual_pooling": "gpo",
            "visual_pooling_options": {"temperature": 0.1, "variant": "code"},
            "text_pooling": "gpo",
            "text_pooling_options": {"temperature": 0.1, "variant": "code"},
        },
        projection="img_enc.fc.weight",
        names=_single_view("gpool", "linear"),
    ),
    CheckpointLayout(
        mark="img_enc.pool.balance.",
        fields={
            "name": "vse-2ad",
            "text": "bigru",
            "visual_pooling": "adpool",
            "visual_pooling_options": {"variant": "code", "padded_to": REGIONS},
            "text_pooling": "adpool",
            "text_pooling_options": {"variant": "code", "padded_to": TOKENS},
        },
        projection="img_enc.fc.weight",
        names=_single_view("pool", "fc"),
    ),
    CheckpointLayout(
        mark="img_enc.fc_list.",
        fields={
            "name": "mv-vse",
            "text": "gru",
            "view_projections": "separate",
            "visual_pooling": "max",
            "text_pooling": "last",
        },
        projection="img_enc.fc_list.0.weight",
        names={r"visual_projections\.(\d+)\.linear": r"img_enc.fc_list.\1", **_WORDS},
        masked=False,
    ),
)

# Saved by the published code, and never used by it.
UNUSED = ("img_enc.mlp.bns.1.", "txt_enc.bert.pooler.", "txt_enc.bert.embeddings.position_ids")

_NETWORKS = (
    "img_enc.backbone.",
    "img_enc.image_encoder.",
    "img_enc.vit_model.",
    "img_enc.img_proj.",
)


def find_layout(keys: Iterable[str], where: str) -> CheckpointLayout:
    """The layout of a checkpoint.

    Args:
        keys: its own, beginning with `img_enc.` or `txt_enc.`.
        where: the file, for messages.

    Raises:
        InputError: if it has a vision network of its own, or is of no layout; lists its parts.
    """
    keys = sorted(keys)
    if inside := [key for key in keys if key.startswith(_NETWORKS)]:
        raise InputError(
            f"{where} contains a vision network ({_parts(inside)}): only checkpoints that "
            "take features can be converted"
        )
    for layout in LAYOUTS:
        if any(key.startswith(layout.mark) for key in keys):
            return layout
    marks = ", ".join(layout.mark + "*" for layout in LAYOUTS)
    raise InputError(
        f"{where} is of no known layout: its weights are {_parts(keys) or 'none'}; expected one of "
        f"{marks}"
    )


def _parts(keys: Iterable[str]) -> str:
    """The first two parts of the keys, and how many keys begin with each."""
    parts = [".".join(key.split(".")[:2]) for key in keys]
    return ", ".join(f"{part}.* ({parts.count(part)})" for part in dict.fromkeys(parts))


def config_fields(
    layout: CheckpointLayout, weights: Mapping[str, Tensor], where: str
) -> dict[str, Any]:
    """Fields of `VseConfig` as the layout and the weights' shapes give them.

    Raises:
        InputError: if a weight whose shape is needed is missing, or no matrix.
    """
    dimension, feature_dim = _shape(weights, layout.projection, where)
    views = sum(bool(re.fullmatch(r"img_enc\.fc_list\.\d+\.weight", key)) for key in weights)
    fields = {
        **layout.fields,
        "dimension": dimension,
        "feature_dim": feature_dim,
        "visual": "region" if any(key.startswith("img_enc.mlp.") for key in weights) else "grid",
        "views": max(1, views),
    }
    if any(key.startswith("txt_enc.bert.") for key in weights):
        return {**fields, "text": "bert"}
    words, word_dim = _shape(weights, "txt_enc.embed.weight", where)
    return {**fields, "vocabulary_size": words, "word_dim": word_dim}


def _shape(weights: Mapping[str, Tensor], key: str, where: str) -> tuple[int, int]:
    if key not in weights:
        raise InputError(f"{where}: {key} is missing among {_parts(sorted(weights))}")
    if weights[key].ndim != 2:
        raise InputError(f"{where}: {key} is {list(weights[key].shape)}, expected a matrix")
    rows, columns = weights[key].shape
    return rows, columns
