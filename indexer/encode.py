"""From a feature store through the model to postings, shard by shard."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from indexer.impacts import Quantiser, prune
from indexer.postings import ImagePostings, Postings
from indexer.writing import QuantisationReport
from sparta.errors import InputError
from sparta.features.batch import ImageCollator
from sparta.features.record import FeatureSource, ImageFeatures
from sparta.features.store import FeatureStore
from sparta.model import TermScores, VisualSparta
from sparta.tokenizer import WordPieceTokenizer


@dataclass(frozen=True)
class ImageEncoder:
    """A loaded model and the store it reads."""

    model: VisualSparta
    tokenizer: WordPieceTokenizer
    store: FeatureStore
    batch_size: int

    def batches(self, rows: Sequence[int]) -> Iterator[tuple[list[ImageFeatures], TermScores]]:
        """Images of some rows with their term scores, on the model's device."""
        config = self.model.config
        collate = ImageCollator(self.tokenizer, config.max_regions, config.max_label_tokens)
        waiting = iter(rows)
        while chunk := list(islice(waiting, self.batch_size)):
            images = [self.store[row] for row in chunk]
            yield images, self.model.term_scores(collate(images))

    def allowed(self, terms: str) -> Tensor:
        """[V] bool on the model's device: terms of the set "seen" (in training) or "all"."""
        indexable = torch.from_numpy(self.tokenizer.indexable).to(self.model.device)
        return indexable & self.model.trained_terms if terms == "seen" else indexable


def load_model(name: str | Path, device: torch.device) -> tuple[VisualSparta, WordPieceTokenizer]:
    """A model ready to encode, and its tokenizer.

    Raises:
        InputError: if there is none, or it has no tokenizer.
    """
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
    model.to(device)  # type: ignore[arg-type]
    return model.eval(), model.tokenizer


def model_fingerprint(model: VisualSparta) -> str:
    """SHA-256 over weights and configuration, whatever folder they came from."""
    digest = hashlib.sha256()
    config = model.config.to_diff_dict()
    for changing in ("transformers_version", "_name_or_path"):
        config.pop(changing, None)
    digest.update(json.dumps(config, sort_keys=True, default=str).encode())
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.contiguous().cpu().reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()


def check_source(model: VisualSparta, store: FeatureStore) -> None:
    """Refuse features the model was not trained on.

    Raises:
        InputError: naming what differs (the model's against the store's).
    """
    if model.config.feature_source is None:
        if store.source.dimension != model.config.feature_dim:
            raise InputError(
                f"{store.folder} has features of {store.source.dimension} numbers, the model "
                f"takes {model.config.feature_dim}"
            )
        return
    wanted = FeatureSource(**model.config.feature_source)
    if differences := wanted.differences(store.source):
        raise InputError(
            f"{store.folder} holds other features than the model was trained on (the model's "
            f"against the store's): {'; '.join(differences)}. Extract them with --backbone "
            f"{wanted.backbone} --image-size {wanted.image_size} --labels {wanted.label_count}"
        )


def encode_rows(
    encoder: ImageEncoder,
    rows: Sequence[int],
    *,
    baseline: Tensor,
    allowed: Tensor,
    top_n: int | None,
    quantiser: Quantiser,
) -> tuple[Postings, QuantisationReport]:
    """Postings of some rows of the store, pruned and quantised, and what quantising cost."""
    done: list[ImagePostings] = []
    report = QuantisationReport()
    for images, scored in encoder.batches(rows):
        kept = prune(scored.scores, baseline, allowed, top_n)
        present = kept > 0
        scores = kept[present].cpu().numpy()
        impacts = quantiser.impacts(scores)
        report += quantiser.report(scores, impacts)
        terms = present.nonzero()[:, 1].int().cpu().numpy()
        regions = scored.regions[present].cpu().numpy()
        ends = np.cumsum(present.sum(dim=1).cpu().numpy())[:-1]
        rows_of = (np.split(part, ends) for part in (terms, impacts, regions))
        for image, own_terms, own_impacts, own_regions in zip(images, *rows_of, strict=True):
            size = {"width": image.width, "height": image.height}
            done.append(
                ImagePostings(
                    image.image_id, size, own_terms, own_impacts, own_regions, image.boxes
                )
            )
    return Postings.of(done), report
