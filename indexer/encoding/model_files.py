"""What a model's folder says of the model, read without torch."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open

from indexer.settings import OffsetKind
from sparta.model_id import find_file, read_model_config
from sparta.tokenizer import WordPieceTokenizer
from sparta.word_tables import RARE_TERMS, SUBSTITUTES, WordTables

BUFFERS = ("trained_terms", "term_frequencies", "indexable")


@dataclass(frozen=True)
class ReadConfig:
    """The part of `VisualSpartaConfig` that decides what a model reads, with the same defaults."""

    feature_source: dict[str, Any] | None = None
    feature_dim: int = 2048
    use_visual: bool = True
    use_labels: bool = True
    use_attributes: bool = True
    max_regions: int = 50
    max_label_tokens: int = 70
    offset: OffsetKind = "mean"

    @classmethod
    def of(cls, values: dict[str, Any]) -> Self:
        """From the content of a `config.json`."""
        return cls(**{name: values[name] for name in cls.__dataclass_fields__ if name in values})


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
    tokenizer: WordPieceTokenizer
    hashes: tuple[str, str]
    trained_terms: NDArray[np.bool_]
    term_frequencies: NDArray[np.int64]
    indexable: NDArray[np.bool_]

    @classmethod
    def open(cls, name: str | Path) -> Self:
        """Read a model's files.

        Raises:
            Exception: if a file is missing or damaged; loading the model says what is wrong.
        """
        values = read_model_config(name, ("visual_sparta",), "VisualSparta model")
        config, weights, tokenizer = (
            _file(name, file) for file in ("config.json", "model.safetensors", "tokenizer.json")
        )
        with safe_open(weights, "np") as tensors:
            names = [name for name in tensors.keys() if name in BUFFERS]  # noqa: SIM118
            arrays = {name: tensors.get_tensor(name) for name in names}
        trained = arrays["trained_terms"]
        frequencies = arrays.get("term_frequencies", np.zeros(len(trained)))
        return cls(
            ReadConfig.of(values),
            WordPieceTokenizer.from_folder(tokenizer.parent),
            (_hash(config), _hash(weights)),
            trained,
            frequencies.astype(np.int64),
            arrays["indexable"],
        )


def read_word_tables(name: str | Path) -> WordTables:
    """The tables of words of a model's folder or hub name.

    Raises:
        InputError: if one has another format or is damaged.
    """
    paths = [find_file(name, file) for file in (SUBSTITUTES, RARE_TERMS)]
    folder = next((path.parent for path in paths if path is not None), None)
    return WordTables() if folder is None else WordTables.open(folder)


def _file(name: str | Path, file: str) -> Path:
    path = find_file(name, file)
    if path is None:
        raise FileNotFoundError(f"{name} has no {file}")
    return path


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
