"""Checkpoints of the code published with VSE∞, VSE+2AD and MV-VSE → a `VseModel`."""

from __future__ import annotations

import argparse
import json
import pickle
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoConfig

from sparta.errors import InputError
from sparta.vse.config import VseConfig
from sparta.vse.init import limit_length, load_tokenizer
from sparta.vse.model import VseModel
from sparta.vse.nltk_words import nltk_words
from sparta.vse.published_layouts import UNUSED, CheckpointLayout, config_fields, find_layout
from sparta.vse.tokenizer import LAST, TextTokenizer

WORDS = "txt_enc.embed.weight"


@dataclass(frozen=True)
class Converted:
    """A model in eval mode, and the checkpoint's weights that nothing uses, there or here."""

    model: VseModel
    unused: list[str]


def convert_checkpoint(
    path: Path,
    *,
    vocabulary: Path | None = None,
    text: str | None = None,
    name: str | None = None,
) -> Converted:
    """Read a published checkpoint; the model computes what the published code does.

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
            another shape.
        OSError: if there is no such configuration or tokenizer.
    """
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
        fields["text_encoder"] = _bert_config(text)
        tokenizer = load_tokenizer(text)
    else:
        if vocabulary is None or text is not None:
            raise InputError(
                f"{path}: its text side reads words: give --vocabulary, the JSON file with "
                "word2idx it was trained with, and no --text"
            )
        fields["words"] = "nltk"
        tokenizer = _read_words(vocabulary, layout, weights, path)
        fields["vocabulary_size"] = len(tokenizer)
    model = VseModel(VseConfig(**fields))
    unused = _fill(model, weights, layout, path)
    if model.text_encoder is not None:
        limit_length(tokenizer, model.text_encoder)
    model.attach(tokenizer, text or str(vocabulary))
    return Converted(model.eval(), unused)


def read_weights(path: Path) -> dict[str, Tensor]:
    """The weights of both encoders, under `img_enc.` and `txt_enc.`, without `module.`.

    They lie under `model`: a list of the two, or one dict. Either may have been saved from within
    a `DataParallel`, which puts `module.` before every key.

    Raises:
        InputError: if the file is damaged, holds something else, or vectors that are not of unit
            length are wanted.
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


def _bert_config(name: str) -> dict[str, Any]:
    fields: dict[str, Any] = AutoConfig.from_pretrained(name).to_dict()
    fields.pop("_name_or_path", None)
    return fields


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
    shapes = {
        key: f"{key} {list(weights[key].shape)} instead of {list(value.shape)}"
        for key, (_, value) in state.items()
        if key in weights and weights[key].shape != value.shape
    }
    problems = {
        "missing": sorted(state.keys() - weights.keys()),
        "unexpected": sorted(weights.keys() - state.keys() - {*unused}),
        "of another shape": sorted(shapes.values()),
    }
    if any(problems.values()):
        listed = "; ".join(f"{what}: {', '.join(keys)}" for what, keys in problems.items() if keys)
        raise InputError(f"{path} is not a whole {layout.fields['name']} checkpoint: {listed}")
    model.load_state_dict({key: weights[theirs] for theirs, (key, _) in state.items()})
    return unused
