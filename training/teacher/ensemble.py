"""VisualSparta models as teachers: several of one vocabulary are an ensemble."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from torch import Tensor

from sparta.errors import InputError
from sparta.features.store import FeatureStore
from sparta.tokenizer import Tokenizer
from sparta.visualsparta.collate import ImageBatch, ImageCollator
from sparta.visualsparta.model import VisualSparta
from training.teacher.stores import batches_of, matching_stores


class Ensemble:
    """VisualSparta models of one vocabulary; their term scores are averaged.

    Args:
        names: folders or hub names.
        stores: to choose from; each model reads all that hold its features.
        device: to compute on.
        precision: of matrix products; None as in `VisualSparta.term_scores`.

    Raises:
        InputError: if a model cannot be loaded, has no tokenizer or another vocabulary than the
            first, or reads other features.
    """

    def __init__(
        self,
        names: Sequence[str],
        stores: Sequence[FeatureStore],
        device: torch.device,
        precision: torch.dtype | None = None,
    ) -> None:
        self.precision = precision
        loaded = [_load(name) for name in names]
        self.models = [model for model, _ in loaded]
        self.tokenizer: Tokenizer = loaded[0][1]
        for name, (model, tokenizer) in zip(names, loaded, strict=True):
            if tokenizer.vocabulary_hash != self.tokenizer.vocabulary_hash:
                raise InputError(
                    f"--teacher {name} has another vocabulary than {names[0]}: VisualSparta models "
                    "that teach together share one"
                )
            model.to(device)  # type: ignore[arg-type]
        self.stores = [
            matching_stores(name, model.config, stores)
            for name, model in zip(names, self.models, strict=True)
        ]
        trained = reduce(torch.logical_or, (model.trained_terms for model in self.models))
        self.wanted: Tensor = trained & self.models[0].indexable
        self.terms = self.wanted.nonzero()[:, 0]

    @torch.inference_mode()
    def photos(self, ids: Sequence[str], start: int) -> Iterator[NDArray[np.float16]]:
        """Mean scores [n, T] of the trained terms, of photos from a given one on, some at a time.

        The mean is over models, and for each over the feature stores it reads.
        """
        used = list({store.folder: store for own in self.stores for store in own}.values())
        collators = [ImageCollator.of(self.tokenizer, model.config) for model in self.models]
        for copies in zip(*(batches_of(store, ids, start) for store in used), strict=True):
            images = dict(zip((store.folder for store in used), copies, strict=True))
            scores = [
                self._scores(model, collate(images[store.folder])) / len(own)
                for model, collate, own in zip(self.models, collators, self.stores, strict=True)
                for store in own
            ]
            mean = torch.stack(scores).sum(dim=0) / len(self.models)
            yield mean.cpu().numpy().astype(np.float16)

    def _scores(self, model: VisualSparta, batch: ImageBatch) -> Tensor:
        return model.term_scores(batch, self.wanted, self.precision).scores[:, self.terms]

    def columns(self) -> NDArray[np.int64]:
        """[V] int64: the column of each term of the vocabulary in the scores, -1 if it has none."""
        columns = np.full(len(self.wanted), -1)
        columns[self.terms.cpu().numpy()] = np.arange(len(self.terms))
        return columns

    def counts(self, texts: Sequence[str]) -> csr_array:
        """[S, T] float16: how often each sentence contains each trained term."""
        columns = self.columns()
        found = [columns[self.tokenizer.encode_ids(text)] for text in texts]
        found = [own[own >= 0] for own in found]
        ends = np.cumsum([0, *map(len, found)])
        ones = np.ones(ends[-1], np.float32)
        counts = csr_array((ones, np.concatenate(found), ends), (len(texts), len(self.terms)))
        counts.sum_duplicates()
        return counts


def _load(name: str) -> tuple[VisualSparta, Tokenizer]:
    try:
        model = VisualSparta.from_pretrained(name)
    except (OSError, ValueError) as error:
        raise InputError(f"--teacher {name} is not a VisualSparta model: {error}") from error
    if model.tokenizer is None:
        raise InputError(f"--teacher {name} has no tokenizer.json: a model folder needs one")
    return model, model.tokenizer
