"""Models on the disk: their files, read without torch, and their networks, loaded in it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, TypeAdapter
from safetensors import safe_open

from indexer.settings import OffsetKind
from sparta.errors import InputError
from sparta.files import sha256
from sparta.json_values import Json
from sparta.model_id import find_file, read_model_config
from sparta.readers.base import parse
from sparta.tokenizer import TermTokenizer
from sparta.visualsparta.offsets import OFFSETS, TermOffsets
from sparta.visualsparta.windows import Windows, windows_of
from sparta.word_tables import FILES, WordTables

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

    from sparta.visualsparta.model import VisualSparta

TITLE = "VisualSparta model", "--model"  # for messages
HEADS = ("image_head", "dense_head")  # model types of encoders that give an image one vector
BUFFERS = ("trained_terms", "term_frequencies", "indexable")


# ---- files ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ReadConfig:
    """The part of `VisualSpartaConfig` that indexing needs, with the same defaults."""

    feature_source: Json | None = None
    feature_dim: int = 2048
    use_visual: bool = True
    use_labels: bool = True
    use_attributes: bool = True
    max_regions: int = 50
    max_label_tokens: int = 70
    offset: OffsetKind = "mean"
    frequency_power: Annotated[float, Field(ge=0, le=1)] = 0.3
    encoder: Json | None = None
    dual_encoder: str | None = None
    text_key: str | None = None

    @classmethod
    def of(cls, values: Json) -> Self:
        """From the content of a `config.json`."""
        return cls(**{name: values[name] for name in cls.__dataclass_fields__ if name in values})

    @classmethod
    def open(cls, name: str | Path) -> Self:
        """From a model's folder or hub name.

        Raises:
            InputError: if it is of another kind, or a value is of a wrong type or out of range.
        """
        found = vars(cls.of(read_model_config(name, ("visual_sparta",), *TITLE)))
        return parse(TypeAdapter(cls), found, f"--model {name} is damaged: config.json")

    @property
    def reranks(self) -> bool:
        """Whether an image has one vector, in a space that a known text tower shares."""
        return bool(self.dual_encoder) and (self.encoder or {}).get("model_type") in HEADS

    def windows(self, regions: int) -> Windows | None:
        """See `VisualSparta.windows`."""
        headed = (self.encoder or {}).get("model_type") in HEADS
        return windows_of((self.feature_source or {}).get("kind"), regions) if headed else None


@dataclass(frozen=True)
class ModelFiles:
    """A model's folder without the weights of its network.

    Attributes:
        config: what the model reads.
        tokenizer: its word pieces.
        hashes: SHA-256 of the files that decide what it computes.
        trained_terms: [V] bool.
        term_frequencies: [V] int64, all 0 where unknown.
        indexable: [V] bool.
    """

    config: ReadConfig
    tokenizer: TermTokenizer
    hashes: tuple[str, str]
    trained_terms: NDArray[np.bool_]
    term_frequencies: NDArray[np.int64]
    indexable: NDArray[np.bool_]

    @classmethod
    def open(cls, name: str | Path) -> Self:
        """Read a model's files; raises whatever is wrong, which loading the model explains."""
        config, weights, tokenizer = (
            _file(name, file) for file in ("config.json", "model.safetensors", "tokenizer.json")
        )
        with safe_open(weights, "np") as tensors:
            names = [name for name in tensors.keys() if name in BUFFERS]  # noqa: SIM118
            arrays = {name: tensors.get_tensor(name) for name in names}
        trained = arrays["trained_terms"]
        frequencies = arrays.get("term_frequencies", np.zeros(len(trained)))
        return cls(
            ReadConfig.open(name),
            TermTokenizer.from_folder(tokenizer.parent),
            (sha256(config), sha256(weights)),
            trained,
            frequencies.astype(np.int64),
            arrays["indexable"],
        )


def read_word_tables(name: str | Path) -> WordTables:
    """The tables of words of a model; raises InputError if one is damaged."""
    paths = [find_file(name, file) for file in FILES]
    folder = next((path.parent for path in paths if path is not None), None)
    return WordTables() if folder is None else WordTables.open(folder)


def vocabulary_of(models: Sequence[str | Path]) -> str:
    """Hash of the terms of some models, "" if that is unknown before they are loaded."""
    path = None
    with suppress(InputError):  # which loading the model reports
        path = find_file(models[0], "tokenizer.json") if models else None
    return "" if path is None else TermTokenizer.from_folder(path.parent).vocabulary_hash


def read_offsets(names: Sequence[str | Path]) -> TermOffsets | None:
    """The mean over models of what their training photos say, None if one does not record it."""
    paths = [find_file(name, OFFSETS) for name in names]
    found = [TermOffsets.load(path) if path else None for path in paths]
    known = [one for one in found if one is not None]
    if not known or len(known) < len(found):
        return None
    offset: NDArray[np.float32] = np.mean([one.offset for one in known], axis=0)
    return TermOffsets(offset, float(np.mean([one.largest for one in known])))


def _file(name: str | Path, file: str) -> Path:
    path = find_file(name, file)
    if path is None:
        raise FileNotFoundError(f"{name} has no {file}")
    return path


# ---- networks ------------------------------------------------------------------------------------


def load_models(
    names: Sequence[str | Path], device: torch.device
) -> tuple[list[VisualSparta], TermTokenizer]:
    """Load VisualSparta models and the tokenizer they share.

    Raises InputError if there is none, one cannot be used, or their vocabularies differ.
    """
    if not names:
        raise InputError("no --model: give at least one")
    loaded = [_load_model(name, device) for name in names]
    first = loaded[0][1]
    for name, (_, tokenizer) in zip(names, loaded, strict=True):
        if tokenizer.vocabulary_hash != first.vocabulary_hash:
            raise InputError(
                f"--model {name} has another vocabulary than {names[0]} "
                f"({_first_difference(first.vocabulary, tokenizer.vocabulary)}): only models of "
                "one vocabulary can share an index"
            )
    return [model for model, _ in loaded], first


def _load_model(name: str | Path, device: torch.device) -> tuple[VisualSparta, TermTokenizer]:
    from sparta.text_encoder import move
    from sparta.visualsparta.model import VisualSparta

    ReadConfig.open(name)
    try:
        model = VisualSparta.from_pretrained(name)
    except (OSError, ValueError) as error:
        raise InputError(f"--model {name} is not a VisualSparta model: {error}") from error
    if model.tokenizer is None:
        raise InputError(f"--model {name} has no tokenizer.json: a model folder needs one")
    if len(model.tokenizer.vocabulary) != len(model.indexable):
        raise InputError(
            f"--model {name}: tokenizer.json has {len(model.tokenizer.vocabulary)} terms, the "
            f"model {len(model.indexable)}: they are not of the same model"
        )
    move(model, device)
    return model.eval(), model.tokenizer


def _first_difference(first: list[str], second: list[str]) -> str:
    for number, (term, other) in enumerate(zip(first, second, strict=False)):
        if term != other:
            return f"term {number} is {other!r} instead of {term!r}"
    return f"{len(second)} terms instead of {len(first)}"


def model_fingerprint(model: PreTrainedModel) -> str:
    """SHA-256 over a model's weights and configuration, independent of its folder."""
    import torch

    digest = hashlib.sha256()
    config = model.config.to_diff_dict()
    # The power decides what an index keeps, not what the model computes.
    for changing in ("transformers_version", "_name_or_path", "frequency_power"):
        config.pop(changing, None)
    for later in ("dual_encoder", "text_key"):  # absent from configurations of former versions
        if config.get(later) is None:
            config.pop(later, None)
    digest.update(json.dumps(config, sort_keys=True, default=str).encode())
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.contiguous().cpu().reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()
