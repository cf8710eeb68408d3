"""The text tower of a dual encoder: texts to vectors, without torch once it was converted.

One text is computed at a time, without padding, unless the tower was trained on padded texts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from sparta.errors import InputError, first_line
from sparta.inference import NETWORK, Network, add_entry, find_entry
from sparta.json_values import Json, JsonMapping
from sparta.model_id import find_file
from sparta.networks.encoder import hash_files, weights_hash
from sparta.vse.tokenizer import FILE, TextTokenizer, nltk_words

if TYPE_CHECKING:
    from sparta.adapt.towers import DualEncoder

# What else decides a text tower's output, beside its weights.
SMALL_FILES = (
    *("config.json", FILE, "tokenizer_config.json"),
    *("vocab.txt", "vocab.json", "merges.txt"),
)
# Texts by which a converted tower and its tokenizer are compared with torch's.
PROBES = ("a", "Two dogs, on a beach!", "two men's red hats " * 50, "Ein Café — 2 Stühle")
LARGEST_ERROR = 2e-3  # of a number of a vector of length 1, half of it torch's in half precision


def text_key(name: str | Path) -> str:
    """Names all that decides a text's vector."""
    small = [path for file in SMALL_FILES if (path := find_file(name, file))]
    return weights_hash(str(name)) + hash_files(small)


class TextTower:
    """A converted text tower; safe from any thread.

    Args:
        folder: with the network and the tokenizer.
        description: of the tower, as `DualEncoder.text_side` returns it.
    """

    def __init__(self, folder: Path, description: JsonMapping) -> None:
        self.folder = folder
        self._length, self._pad_id = description["padded_to"], description["pad_id"]
        self._masks: bool = description["masks"]
        self._tokenise = _tokeniser(folder, description)
        self._network = Network(folder / NETWORK)

    @classmethod
    def open(cls, name: str | Path) -> Self:
        """The text tower of a dual encoder by folder or hub name; torch converts it the first time.

        Raises:
            InputError: if the model is no dual encoder, or its tower cannot be converted.
        """
        key = {"text_tower": text_key(name)}
        if entry := find_entry(key):
            return cls(*entry)
        import torch

        from sparta.adapt.towers import open_dual_encoder

        encoder = open_dual_encoder(name, torch.device("cpu"))
        try:
            return cls(*add_entry(key, partial(cls._convert, encoder)))
        except Exception as error:  # conversion runs the code of any encoder
            problem = f"its text tower cannot be converted for OpenVINO: {first_line(error)}"
            raise InputError(f"{name}: {problem}") from error

    @classmethod
    def _convert(cls, encoder: DualEncoder, folder: Path) -> Json:
        """Write network and tokenizer, and compare vectors with torch's; returns the description.

        Raises whatever torch and OpenVINO raise, and ValueError if the vectors differ.
        """
        import torch

        from sparta.inference import convert

        module, description = encoder.text_side(folder)
        expected = encoder.embed(PROBES).float().numpy()
        ids = torch.tensor([_tokeniser(folder, description)(PROBES[1])])
        convert(module, [ids, torch.ones_like(ids)], folder / NETWORK, free=2)
        found = cls(folder, description).encode(PROBES)
        if not np.abs(found - expected).max() <= LARGEST_ERROR:
            raise ValueError("the network that OpenVINO makes of it computes something else")
        return description

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """[Q, d] float32 vectors of length 1, of at least one text."""
        inputs = []
        for ids in map(self._tokenise, texts):
            padding = max(0, self._length - len(ids))
            mask = [1] * len(ids) + [0 if self._masks else 1] * padding
            inputs.append([np.array([row]) for row in (ids + [self._pad_id] * padding, mask)])
        found: NDArray[np.float32] = np.concatenate([own[0] for own in self._network(inputs)])
        return found


def _tokeniser(folder: Path, description: JsonMapping) -> Callable[[str], list[int]]:
    """Texts to ids, with the start and end that the tower wants, cut to its length."""
    if words := description.get("words"):
        return TextTokenizer.from_folder(folder, nltk_words if words == "nltk" else None).encode
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / FILE))
    return lambda text: tokenizer.encode(text).ids
