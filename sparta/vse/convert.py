"""Checkpoints of the code published with VSE∞, VSE+2AD and MV-VSE → a `VseModel`.

Whatever does not fit raises InputError, which names the file and the keys.
"""

from __future__ import annotations

import argparse
import json
import pickle
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sparta.errors import InputError
from sparta.json_values import Json, JsonMapping
from sparta.text_encoder import check_weights, encoder_config, portable_config
from sparta.vse.config import VseConfig
from sparta.vse.init import limit_length, load_tokenizer
from sparta.vse.model import VseModel
from sparta.vse.tokenizer import LAST, TextTokenizer, nltk_words

WORDS = "txt_enc.embed.weight"
PIECES = "txt_enc.bert.embeddings.word_embeddings.weight"
# Some BERTs pad the number of their token embeddings, to a multiple of this at most. A tokenizer
# with fewer entries is another BERT's.
SPARE = 1024
_WORDS = {r"word_encoder\.embedding": "txt_enc.embed", r"word_encoder\.gru": "txt_enc.rnn"}
# What the published evaluation pads to, on which ADPOOL's published code depends: all images have
# 36 regions; captions come in batches of 125, whose longest has 25 tokens (the median over COCO's
# val2017 captions in their order, start and end included: 24 words, or 25 word pieces).
REGIONS, TOKENS = 36, 25
# Saved by the published code, and never used by it.
UNUSED = ("img_enc.mlp.bns.1.", "txt_enc.bert.pooler.", "txt_enc.bert.embeddings.position_ids")
_VISION = ("backbone", "image_encoder", "vit_model", "img_proj")


def convert_checkpoint(
    path: str | Path,
    *,
    vocabulary: str | Path | None = None,
    text: str | None = None,
    name: str | None = None,
) -> tuple[VseModel, list[str]]:
    """Read a published checkpoint; the model computes what the published code does.

    Returns the model in eval mode, and the weights that nothing uses, there or here.

    VSE+2AD's published pooling depends on the padding of a batch. The model fixes it to that of the
    published evaluation, 36 regions and 25 tokens, so that an image or text has one vector.

    Args:
        path: file with the weights of both encoders, as `train.py` of one of the three
            repositories saves it.
        vocabulary: for a GRU over words, the JSON file with `word2idx` it was trained with.
        text: for a BERT, hub name or folder of the configuration and the tokenizer it began with.
        name: what a server calls the model; the method's name by default.

    Raises:
        InputError: if the file is none, holds anything but what a layout has, or vocabulary or
            tokenizer are of another size; lists every key that is missing, unexpected or of
            another shape; or if there is no such configuration or tokenizer.
    """
    path = Path(path)
    weights = read_weights(path)
    layout = find_layout(weights, str(path))
    fields = config_fields(layout, weights, str(path))
    if name is not None:
        fields["name"] = name
    if fields["text"] == "bert":
        if text is None or vocabulary is not None:
            raise InputError(
                f"{path}: its text side is a BERT: give --text, the name or folder of the one it "
                "was trained from (published: bert-base-uncased), and no --vocabulary"
            )
        tokenizer = load_tokenizer(text)
        fields["text_encoder"] = portable_config(encoder_config(text))
        if 0 < len(weights.get(PIECES, ())) - len(tokenizer) < SPARE:
            weights[PIECES] = weights[PIECES][: len(tokenizer)]
            fields["text_encoder"]["vocab_size"] = len(tokenizer)
    else:
        if vocabulary is None or text is not None:
            raise InputError(
                f"{path}: its text side reads words: give --vocabulary, the JSON file with "
                "word2idx it was trained with, and no --text"
            )
        fields["words"] = "nltk"
        tokenizer = _read_words(Path(vocabulary), layout, weights, path)
        fields["vocabulary_size"] = len(tokenizer)
    model = VseModel(VseConfig(**fields))
    unused = _fill(model, weights, layout, path)
    if model.text_encoder is not None:
        limit_length(tokenizer, model.text_encoder)
    model.attach(tokenizer, text or str(vocabulary))
    return model.eval(), unused


def read_weights(path: Path) -> dict[str, Tensor]:
    """The weights of both encoders, under `img_enc.` and `txt_enc.`, without `module.`.

    They lie under `model`: a list of the two, or one dict. Either may have been saved from within
    a `DataParallel`, which puts `module.` before every key.
    """
    content = _load(path)
    state = content.get("model") if isinstance(content, dict) else None
    weights: dict[str, Any] = {}
    if isinstance(state, list | tuple) and [isinstance(part, dict) for part in state] == [True] * 2:
        for encoder, part in zip(("img_enc.", "txt_enc."), state, strict=True):
            weights |= {encoder + key: value for key, value in _bare(part).items()}
    elif isinstance(state, dict):
        weights = _bare(state)
        for encoder in ("img_enc.", "txt_enc."):
            part = {key: value for key, value in weights.items() if key.startswith(encoder)}
            inner = {key.removeprefix(encoder): value for key, value in part.items()}
            weights = {key: value for key, value in weights.items() if key not in part}
            weights |= {encoder + key: value for key, value in _bare(inner).items()}
    else:
        found = list(content) if isinstance(content, dict) else type(content).__name__
        raise InputError(
            f"{path}: expected a dict whose `model` holds the weights of an image and a text "
            f"encoder, found {found}"
        )
    if wrong := [key for key, value in weights.items() if not isinstance(value, Tensor)]:
        raise InputError(f"{path}: not tensors: {', '.join(wrong)}")
    for flag in ("no_imgnorm", "no_txtnorm"):
        if any(getattr(content.get(options), flag, False) for options in ("opt", "args")):
            raise InputError(f"{path} was trained with --{flag}: vectors here have unit length")
    return weights


def _load(path: Path) -> Any:
    """Unpickle tensors, plain values and the `argparse.Namespace` of the training's options.

    A Namespace has no code of its own that unpickling could run: its attributes are set, and they
    are values that are allowed themselves.
    """
    try:
        with torch.serialization.safe_globals([argparse.Namespace]):
            return torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError, LookupError) as error:
        if refused := re.search(r"GLOBAL (\S+)", str(error)):
            raise InputError(
                f"{path} contains a {refused[1]} besides weights, which is not read: it could run "
                "arbitrary code. If you trust the file, write only its weights to another: "
                "torch.save({'model': torch.load(FILE, weights_only=False)['model']}, NEW)"
            ) from error
        raise InputError(f"{path} is no checkpoint of torch's, or it is damaged") from error


def _bare(part: Mapping[str, Any]) -> dict[str, Any]:
    wrapped = all(key.startswith("module.") for key in part)
    return {key.removeprefix("module.") if wrapped else key: value for key, value in part.items()}


def _read_words(
    path: Path, layout: CheckpointLayout, weights: dict[str, Tensor], checkpoint: Path
) -> TextTokenizer:
    """The vocabulary's tokenizer; an embedding without a row for `<mask>` gets one of zeros."""
    try:
        words = json.loads(path.read_text(encoding="utf-8-sig"))["word2idx"]
        known = {str(word): int(number) for word, number in words.items()}
        tokenizer = TextTokenizer.from_words(known, nltk_words)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InputError(f"{path}: expected a JSON object with word2idx: {error!r}") from error
    expected = len(tokenizer) if layout.masked else len(known)
    if (found := len(weights[WORDS])) != expected:
        counted = f"{len(known)} words" + (f", {expected} with {LAST}" if layout.masked else "")
        raise InputError(
            f"{path} has {counted}, {checkpoint} embeds {found}: it was trained with another "
            "vocabulary"
        )
    # Only training uses the row.
    missing = weights[WORDS].new_zeros(len(tokenizer) - expected, weights[WORDS].shape[1])
    weights[WORDS] = torch.cat([weights[WORDS], missing])
    return tokenizer


def _fill(
    model: VseModel, weights: Mapping[str, Tensor], layout: CheckpointLayout, path: Path
) -> list[str]:
    """Copy all weights into the model; return those left over because nothing uses them."""
    state = {layout.published(key): (key, value) for key, value in model.state_dict().items()}
    unused = [key for key in sorted(weights.keys() - state.keys()) if key.startswith(UNUSED)]
    check_weights(
        {key: value for key, value in weights.items() if key not in unused},
        {theirs: value for theirs, (_, value) in state.items()},
        f"{path} is not a whole {layout.fields['name']} checkpoint",
    )
    model.load_state_dict({key: weights[theirs] for theirs, (key, _) in state.items()})
    return unused


@dataclass(frozen=True)
class CheckpointLayout:
    """The weights of one repository; its keys begin with `img_enc.` or `txt_enc.` here."""

    mark: str  # beginning of keys that no other layout has
    fields: JsonMapping  # of `VseConfig`, as the published code computes
    projection: str  # the linear layer whose shape gives the widths of features and joint space
    # Beginnings of a `VseModel`'s keys, as patterns, and what they are called there
    names: Mapping[str, str]
    # Whether the words' embedding has a row for `<mask>` behind the vocabulary's own
    masked: bool = True

    def published(self, key: str) -> str:
        """What a key of a `VseModel` is called there; the key itself if it has no counterpart."""
        for pattern, name in self.names.items():
            if match := re.match(pattern + r"\.", key):
                return match.expand(name) + key[match.end() - 1 :]
        return key


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


def find_layout(keys: Iterable[str], where: str) -> CheckpointLayout:
    """The layout of a checkpoint, by keys that begin with `img_enc.` or `txt_enc.`."""
    keys = sorted(keys)
    networks = tuple(f"img_enc.{part}." for part in _VISION)
    if inside := [key for key in keys if key.startswith(networks)]:
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


def config_fields(layout: CheckpointLayout, weights: Mapping[str, Tensor], where: str) -> Json:
    """Fields of `VseConfig` as the layout and the weights' shapes give them."""
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
