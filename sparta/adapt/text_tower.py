"""The text tower of a dual encoder: texts to vectors, without torch once it was converted.

A CLIP, SigLIP, Chinese-CLIP or ALIGN of transformers, or a dense VSE model of this project. One
text is computed at a time, without padding, unless the tower was trained on padded texts.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from sparta.errors import InputError, first_line
from sparta.inference import DESCRIPTION, NETWORK, Network, add_entry, find_entry
from sparta.json_values import Json, JsonMapping
from sparta.model_id import find_file, read_model_config
from sparta.networks.encoder import hash_files, weights_hash
from sparta.vse.tokenizer import FILE, TextTokenizer, nltk_words

if TYPE_CHECKING:
    from torch import Tensor, nn

    Embed = Callable[[Sequence[str]], Tensor]  # [Q, d] of unit length, by torch

DENSE = "vse"  # model type of dense VSE models
PADDED = {"siglip", "siglip2"}  # model types that read every text padded to the full length
# Files that decide what a tower computes, beside its weights.
SMALL_FILES = (
    "config.json",
    FILE,
    "tokenizer_config.json",
    "vocab.json",
    "merges.txt",
    "vocab.txt",
)
# Texts by which the converted tower is compared with torch's, and with its tokenizer.
PROBES = ("a", "Two dogs, on a beach!", "two men's red hats " * 50, "Ein Café — 2 Stühle")
LARGEST_ERROR = 1e-3  # of a number of a vector of length 1


class TextTower:
    """A converted text tower; safe from any thread.

    Args:
        folder: with the network and the tokenizer.
        description: of the tower, as `TextTower.convert` makes it.

    Attributes:
        dimension: d, numbers of a vector.
    """

    def __init__(self, folder: Path, description: JsonMapping) -> None:
        self.folder, self.description = folder, dict(description)
        self.dimension: int = description["dimension"]
        self._pad_to, self._pad_id = description["pad_to"], description["pad_id"]
        self._masks: bool = description["masks"]
        self._tokenise = _tokeniser(folder, description)
        self._network = Network(folder / NETWORK)

    @classmethod
    def open(cls, name: str | Path) -> Self:
        """The text tower of a model by folder or hub name; converted by torch the first time.

        Raises:
            InputError: if the model has no text tower, or it cannot be converted.
        """
        kind = read_model_config(name, (), "dual encoder").get("model_type")
        found = [path for file in SMALL_FILES if (path := find_file(name, file))]
        key = {"text_tower": [weights_hash(str(name)), hash_files(found)]}
        if entry := find_entry(key):
            return cls(*entry)
        module, embed, about = _load_dense(name) if kind == DENSE else _load_dual(name)
        try:
            return cls(*add_entry(key, partial(cls._convert, module, embed, about)))
        except Exception as error:  # conversion runs the code of any encoder
            raise InputError(
                f"{name}: its text tower cannot be converted: {first_line(error)}"
            ) from error

    @classmethod
    def _convert(cls, module: nn.Module, embed: Embed, about: _About, folder: Path) -> Json:
        """Write network and tokenizer, and compare vectors with torch's; returns the description.

        Raises whatever torch and OpenVINO raise, and ValueError if the vectors differ.
        """
        import torch

        from sparta.inference import convert

        save, description = about
        save(folder)
        expected = embed(PROBES).numpy()
        description["dimension"] = expected.shape[1]
        ids = torch.tensor([_tokeniser(folder, description)(PROBES[1])])
        convert(module, [ids, torch.ones_like(ids)], folder / NETWORK, lengths=True)
        found = cls(folder, description).encode(PROBES)
        if not np.abs(found - expected).max() <= LARGEST_ERROR:
            raise ValueError("the network that OpenVINO makes of it computes something else")
        return description

    @classmethod
    def from_folder(cls, folder: Path) -> Self:
        """A tower that was saved; raises InputError if it is damaged."""
        try:
            return cls(folder, json.loads((folder / DESCRIPTION).read_text()))
        except (OSError, ValueError, LookupError, RuntimeError) as error:
            raise InputError(f"{folder} is damaged: {first_line(error)}") from error

    def save(self, folder: Path, copy: Callable[[Path, Path], object] = shutil.copyfile) -> None:
        """Copy the files of the tower into a new folder, for `from_folder`."""
        folder.mkdir(parents=True)
        for path in self.folder.iterdir():
            copy(path, folder / path.name)

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """[Q, d] float32 vectors of length 1."""
        inputs = []
        for text in texts:
            ids = self._tokenise(text)
            padding = max(0, self._pad_to - len(ids))
            mask = [1] * len(ids) + [0 if self._masks else 1] * padding
            rows = [*ids, *[self._pad_id] * padding], mask
            inputs.append([np.array([row], np.int64) for row in rows])
        vectors = [found[0] for found in self._network(inputs)]
        return np.concatenate([np.empty((0, self.dimension), np.float32), *vectors])


_About = tuple["Callable[[Path], object]", Json]  # saves the tokenizer; the description


def _tokeniser(folder: Path, description: JsonMapping) -> Callable[[str], list[int]]:
    """Texts to ids, with the start and end that the tower wants, cut to its length."""
    if description["kind"] == DENSE:
        splitter = nltk_words if description["words"] == "nltk" else None
        return TextTokenizer.from_folder(folder, splitter).encode
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / FILE))
    return lambda text: tokenizer.encode(text).ids


# ---- towers in torch -----------------------------------------------------------------------------


def _load_dual(name: str | Path) -> tuple[nn.Module, Embed, _About]:
    """The text tower of a dual encoder of transformers; raises InputError if it is none."""
    import torch
    from transformers import AutoTokenizer

    from sparta.model_id import model_folder
    from sparta.networks.pretrained import load_model

    model: Any = load_model(str(name)).eval()
    if not hasattr(model, "get_text_features"):
        kind = model.config.model_type
        raise InputError(f"{name} is a {kind}, which has no text tower: give a CLIP or SigLIP")
    try:
        tokenizer: Any = AutoTokenizer.from_pretrained(model_folder(name))
        backend = tokenizer.backend_tokenizer
    except (OSError, ValueError, ImportError, AttributeError) as error:
        raise InputError(f"{name} has no fast tokenizer: {first_line(error)}") from error
    length = min(tokenizer.model_max_length, model.config.get_text_config().max_position_embeddings)
    padded = model.config.model_type in PADDED

    class Text(torch.nn.Module):
        """Ids and mask [1, L] to [1, d] of length 1."""

        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
            """Of one text."""
            found: Any = self.model.get_text_features(input_ids=ids, attention_mask=mask)
            vectors = found if isinstance(found, torch.Tensor) else found.pooler_output
            return torch.nn.functional.normalize(vectors.float(), dim=-1)

    module = Text().eval()

    @torch.inference_mode()
    def embed(texts: Sequence[str]) -> Tensor:
        options = {"truncation": True, "max_length": length, "return_tensors": "pt"}
        rows = (
            tokenizer(text, padding="max_length" if padded else False, **options) for text in texts
        )
        return torch.cat([module(row.input_ids, row.get("attention_mask", None)) for row in rows])

    def save(folder: Path) -> None:
        backend.no_padding()
        backend.enable_truncation(length)
        backend.save(str(folder / FILE))

    description = {
        "kind": model.config.model_type,
        "pad_to": length if padded else 0,
        "pad_id": tokenizer.pad_token_id or 0,
        "masks": "attention_mask" in tokenizer.model_input_names,
    }
    return module, embed, (save, description)


def _load_dense(name: str | Path) -> tuple[nn.Module, Embed, _About]:
    """The text encoder of a dense VSE model; raises InputError if it has no tokenizer."""
    import torch

    from sparta.vse.aggregators import GPO
    from sparta.vse.batch import TextBatch
    from sparta.vse.encoders import unit
    from sparta.vse.model import VseModel

    model = VseModel.from_pretrained(name)
    tokenizer = model.tokenizer
    if tokenizer is None:
        raise InputError(f"{name} has no tokenizer.json: a model folder needs one")

    class Text(torch.nn.Module):
        """Ids and mask [1, L] to [1, d] of length 1."""

        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
            """Of one text; the GRU takes it as it is, for nothing is padded."""
            lengths = mask.sum(dim=1)
            if self.model.text_encoder is not None:
                read = self.model._read(TextBatch(ids, lengths))
            else:
                words = self.model.word_encoder
                hidden = words.gru(words.embedding(ids))[0]
                read = hidden.unflatten(-1, (-1, words.gru.hidden_size)).mean(dim=-2)
            pooling = self.model.text_pooling
            whole = isinstance(pooling, GPO)
            return unit(pooling.pool_whole(read) if whole else pooling(read, lengths))

    description = {"kind": DENSE, "words": model.config.words, "pad_to": 0, "pad_id": 0}
    return Text().eval(), model.embed_texts, (tokenizer.save, description | {"masks": True})
