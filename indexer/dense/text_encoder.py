"""Loads dense models; the only part of answering a query that needs torch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from transformers.utils import logging

from indexer.encoding.models import model_fingerprint
from sparta.errors import InputError
from sparta.vse.model import VseModel
from sparta.vse.tokenizer import TextTokenizer


def load_dense_model(name: str | Path) -> VseModel:
    """A model ready to encode, on the CPU; raises InputError if it cannot be used."""
    logging.disable_progress_bar()
    model = VseModel.from_pretrained(name)
    if model.tokenizer is None:
        raise InputError(f"{name} has no tokenizer.json: a model folder needs one")
    return model


def load_part_model(folder: Path, fingerprint: str) -> VseModel:
    """A dense part's model, on the CPU; raises InputError if it is unusable or another one."""
    model = load_dense_model(folder)
    found = model_fingerprint(model)
    if found != fingerprint:
        raise InputError(
            f"{folder} holds model {found[:12]}, the vectors are of {fingerprint[:12]}: "
            "add them again with `sparta add --dense`"
        )
    return model


class ModelText:
    """The text side of a dense model, on the CPU."""

    def __init__(self, model: VseModel) -> None:
        assert model.tokenizer is not None
        self.model = model
        self._tokenizer: TextTokenizer = model.tokenizer

    @classmethod
    def open(cls, folder: Path, fingerprint: str) -> ModelText:
        """Load a dense part's model; see `load_part_model`."""
        return cls(load_part_model(folder, fingerprint))

    def encode(self, text: str) -> NDArray[np.float32]:
        """Embed a text, [D] float32."""
        vector: NDArray[np.float32] = self.model.embed_texts([text])[0].numpy()
        return vector

    def unknown(self, text: str) -> list[str]:
        """Words the model's vocabulary lacks."""
        return self._tokenizer.unknown(text)
