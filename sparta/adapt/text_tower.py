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
from sparta.networks.encoder import text_key
from sparta.vse.tokenizer import FILE, TextTokenizer, nltk_words

if TYPE_CHECKING:
    from sparta.adapt.towers import DualEncoder

# Texts by which a converted tower and its tokenizer are compared with torch's.
PROBES = ("a", "Two dogs, on a beach!", "two men's red hats " * 50, "Ein Café — 2 Stühle")
LARGEST_ERROR = 2e-3  # of a number of a vector of length 1, half of it torch's in half precision

Ids = list[NDArray[np.int64]]  # ids and mask, [1, L] each


class TextTower:
    """A converted text tower; safe from any thread.

    Args:
        folder: with the network and the tokenizer.
        description: of the tower, as `DualEncoder.text_side` returns it.
    """

    def __init__(self, folder: Path, description: JsonMapping) -> None:
        self.folder = folder
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
        example = [torch.from_numpy(row) for row in _tokeniser(folder, description)(PROBES[1])]
        convert(module, example, folder / NETWORK, free=2)
        found = cls(folder, description).encode(PROBES)
        if not np.abs(found - expected).max() <= LARGEST_ERROR:
            raise ValueError("the network that OpenVINO makes of it computes something else")
        return description

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """[Q, d] float32 vectors of length 1, of at least one text."""
        outputs = self._network([*map(self._tokenise, texts)])
        found: NDArray[np.float32] = np.concatenate([own[0] for own in outputs])
        return found


def _tokeniser(folder: Path, description: JsonMapping) -> Callable[[str], Ids]:
    """Texts to ids and mask, with start, end and padding as the tower wants them."""
    encode: Callable[[str], list[int]]
    if words := description.get("words"):
        encode = TextTokenizer.from_folder(folder, nltk_words if words == "nltk" else None).encode
        return lambda text: _rows(encode(text))
    from tokenizers import Tokenizer

    tokenizer, masks = Tokenizer.from_file(str(folder / FILE)), description["masks"]

    def tokenise(text: str) -> Ids:
        found = tokenizer.encode(text)
        return _rows(found.ids, found.attention_mask if masks else None)

    return tokenise


def _rows(ids: Sequence[int], mask: Sequence[int] | None = None) -> Ids:
    return [np.array([row], np.int64) for row in (ids, mask or [1] * len(ids))]
