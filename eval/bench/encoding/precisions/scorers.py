"""One model as a scorer in every runtime and precision that this machine's CPU has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from eval.bench.encoding.precisions.int8 import Inputs, LinearTerms, dynamic_int8, static_int8
from indexer.encoding.convert import convert_scorer
from indexer.encoding.converted_scorer import (
    NETWORK,
    ConvertedScorer,
    is_convertible,
    network_key,
    network_terms,
)
from indexer.encoding.load import wanted_terms
from indexer.encoding.model_files import ModelFiles
from indexer.encoding.models import load_models
from indexer.encoding.scorer import Scorer, TermScores
from indexer.encoding.stores import check_features
from indexer.encoding.torch_scorer import TorchScorer
from sparta.errors import InputError
from sparta.features.store import FeatureStore
from sparta.inference.cache import find_entry
from sparta.inference.convert import convert
from sparta.inference.runtime import has_bfloat16
from sparta.tokenizer import Tokenizer
from sparta.visualsparta.collate import ImageBatch
from sparta.visualsparta.padding import ImagePadder, PaddedImages

BATCH = 32


class BfloatScorer(TorchScorer):
    """A model in torch with products in bfloat16."""

    def term_scores(self, images: PaddedImages, wanted: NDArray[np.bool_]) -> TermScores:
        """See `Scorer`."""
        terms = torch.from_numpy(wanted)
        found = self.model.term_scores(ImageBatch.of(images), terms, torch.bfloat16)
        return TermScores(*(part.numpy() for part in found))


class Int8Scorer(TorchScorer):
    """A model in torch with products in int8.

    Args:
        scorer: the model in float32.
        terms: [T] int64, those that the module scores.
        module: as `LinearTerms`.
    """

    def __init__(self, scorer: TorchScorer, terms: NDArray[np.int64], module: nn.Module) -> None:
        vars(self).update(vars(scorer))
        self._terms, self._module = terms, module

    @torch.inference_mode()
    def term_scores(self, images: PaddedImages, wanted: NDArray[np.bool_]) -> TermScores:
        """See `Scorer`; of images without labels and with equally many regions each."""
        found = self._module(torch.from_numpy(images.regions), torch.from_numpy(images.locations))
        scores = np.zeros((len(images.regions), len(wanted)), np.float32)
        positions = np.zeros(scores.shape, np.int16)
        scores[:, self._terms], positions[:, self._terms] = (part.numpy() for part in found)
        return TermScores(scores, positions)


@dataclass(frozen=True)
class OpenedModel:
    """A model whose trained terms are scored.

    Attributes:
        files: its folder.
        tokenizer: its word pieces.
        plain: in torch, in float32.
        terms: [T] int64, its trained terms.
        examples: batches of images, in which int8 finds the ranges of inputs.
    """

    files: ModelFiles
    tokenizer: Tokenizer
    plain: TorchScorer
    terms: NDArray[np.int64]
    examples: Sequence[Inputs]

    @classmethod
    def open(cls, store: FeatureStore, name: str, rows: Sequence[int]) -> Self:
        """Load a model.

        Args:
            store: of its features.
            name: folder or hub name.
            rows: of the store, of the examples.

        Raises:
            InputError: if the model cannot be used, was trained on other features, or reads labels
                or a detector's regions, with which OpenVINO does not run it.
        """
        (model,), tokenizer = load_models([name], torch.device("cpu"))
        check_features(name, model.config, store)
        files = ModelFiles.open(name)
        if not is_convertible(files, store.source.kind):
            raise InputError(
                f"--model {name} reads labels or a detector's regions: it runs in torch alone"
            )
        terms = network_terms(files, wanted_terms([files], tokenizer, "trained"))
        padder = ImagePadder.of(tokenizer, files.config)
        examples = []
        for start in range(0, len(rows), BATCH):
            images = padder.pad([store[row] for row in rows[start : start + BATCH]])
            examples.append((torch.from_numpy(images.regions), torch.from_numpy(images.locations)))
        return cls(files, tokenizer, TorchScorer(model), terms, examples)

    def scorers(self, work: Path) -> dict[str, Scorer]:
        """In every runtime and precision, torch in float32 first.

        Args:
            work: folder for OpenVINO's network in int8.
        """
        layers = LinearTerms(self.plain.model, torch.from_numpy(self.terms)).eval()
        found: dict[str, Scorer] = {
            "torch float32": self.plain,
            "torch bfloat16": BfloatScorer(self.plain.model),
            "torch int8": Int8Scorer(self.plain, self.terms, dynamic_int8(layers)),
            "OpenVINO float32": self._converted(),
        }
        if has_bfloat16():
            found["OpenVINO bfloat16"] = self._converted("bf16")
        convert(static_int8(layers, self.examples), self.examples[0], work / NETWORK, batches=True)
        description = {"fingerprint": self.plain.fingerprint}
        found["OpenVINO int8"] = ConvertedScorer(self.files, self.terms, work, description)
        return found

    def _converted(self, precision: str = "f32") -> ConvertedScorer:
        """As `sparta index` runs it."""
        wanted = np.zeros(len(self.files.indexable), np.bool_)
        wanted[self.terms] = True
        regions = self.examples[0][0].shape[1]
        convert_scorer(self.plain, self.files, wanted, regions)  # into the cache
        entry = find_entry(network_key(self.files, self.terms, regions))
        assert entry is not None
        return ConvertedScorer(self.files, self.terms, *entry, precision=precision)
