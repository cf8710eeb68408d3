"""Dense and sparse models under one interface, opened by the type in `config.json`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from eval.recall.images import Images
from eval.recall.score_matrix import DenseScores, Scores, SparseScores, check_memory
from indexer.encoding.models import load_models
from indexer.manifest import is_index
from sparta.errors import InputError
from sparta.features.record import FeatureSource
from sparta.features.store import HEADER, FeatureStore
from sparta.model_id import read_model_config
from sparta.progress import Progress
from sparta.tokenizer import Tokenizer
from sparta.visualsparta.collate import ImageCollator
from sparta.visualsparta.config import VisualSpartaConfig
from sparta.visualsparta.model import VisualSparta
from sparta.vse.batch import collate_images
from sparta.vse.config import VseConfig
from sparta.vse.model import VseModel
from sparta.vse.photo_folder import PhotoFolder

TEXTS = 1024  # encoded between two steps of a progress bar


@dataclass(frozen=True)
class DenseModel:
    """A model that maps texts and images to vectors.

    Attributes:
        name: folder or hub name.
        model: in eval mode, on its device.
    """

    name: str
    model: VseModel

    def scores(
        self, texts: Sequence[str], images: Images, batch_size: int, progress: Progress
    ) -> Scores:
        """Encode T texts and N images; stages "images" and "texts"."""
        return DenseScores(
            self.embed_texts(texts, progress), self.embed_images(images, batch_size, progress)
        )

    def embed_texts(self, texts: Sequence[str], progress: Progress) -> Tensor:
        """[T, D] float32 on the model's device; equal texts get equal vectors, to the last bit."""
        places = {text: place for place, text in enumerate(dict.fromkeys(texts))}
        distinct, parts = list(places), []
        for start in range(0, len(distinct), TEXTS):
            parts.append(self.model.embed_texts(distinct[start : start + TEXTS]))
            progress("texts", min(start + TEXTS, len(distinct)), len(distinct))
        return torch.cat(parts)[[places[text] for text in texts]].to(self.model.device)

    @torch.no_grad()
    def embed_images(self, images: Images, batch_size: int, progress: Progress) -> Tensor:
        """[N, K, D] float32 on the model's device."""
        config, device = self.model.config, self.model.device
        found = torch.empty(len(images), config.views, config.dimension, device=device)
        for place, batch in images.batches(batch_size, progress):
            seen = collate_images(batch, config.max_regions).to(device)
            found[place] = self.model.encode_images(seen)
        return found


@dataclass(frozen=True)
class SparseModel:
    """A VisualSparta: term scores in floating point, not pruned.

    A longer caption sums more terms and scores higher for every image. That does not affect text →
    image, for which the model was trained; in image → text, long captions come first for every
    image unless `caption_prior` corrects for it.

    Attributes:
        name: folder or hub name.
        model: in eval mode, on its device.
        tokenizer: the model's.
    """

    name: str
    model: VisualSparta
    tokenizer: Tokenizer

    def scores(
        self, texts: Sequence[str], images: Images, batch_size: int, progress: Progress
    ) -> Scores:
        """As `DenseModel.scores`; only the texts' terms are computed.

        Raises:
            InputError: if the term scores would not fit in memory.
        """
        ids = [self.tokenizer.encode_ids(text) for text in texts]
        distinct = len(set(texts))
        progress("texts", distinct, distinct)
        used = sorted({term for text in ids for term in text})
        check_memory(len(images), len(used))
        device, config = self.model.device, self.model.config
        wanted = torch.zeros(len(self.tokenizer.vocabulary), dtype=torch.bool, device=device)
        wanted[used] = True
        weights = torch.empty(len(used), len(images), device=device)
        collate = ImageCollator.of(self.tokenizer, config)
        for place, batch in images.batches(batch_size, progress):
            weights[:, place] = self.model.term_scores(collate(batch), wanted).scores[:, used].T
        places = {term: place for place, term in enumerate(used)}
        return SparseScores.of([[places[term] for term in text] for text in ids], weights)


Model = DenseModel | SparseModel


def open_model(name: str, device: torch.device) -> Model:
    """Load a model folder, a hub name or "sample".

    Raises:
        InputError: if it is neither a VSE model nor a VisualSparta, or cannot be used.
    """
    if _kind(name) == VseConfig.model_type:
        dense = VseModel.from_pretrained(name)
        if dense.tokenizer is None:
            raise InputError(f"{name} has no tokenizer.json: a model folder needs one")
        dense.to(device)  # type: ignore[arg-type]
        return DenseModel(name, dense)
    (sparse,), tokenizer = load_models([name], device)
    return SparseModel(name, sparse, tokenizer)


def _kind(name: str) -> str:
    known = (VseConfig.model_type, VisualSpartaConfig.model_type)
    if is_index(Path(name)):
        raise InputError(f"{name} is an index: measure it with sparta eval index")
    return str(read_model_config(name, known, "model")["model_type"])


def open_images(model: Model, folder: Path) -> FeatureStore | PhotoFolder:
    """Open a model's input: a feature store, or photos for a model with a vision network inside.

    Raises:
        InputError: if the folder is neither, or not the input the model takes.
    """
    config = model.model.config
    if isinstance(model, SparseModel) or config.vision is None:
        return FeatureStore.open(folder)
    if (folder / HEADER).is_file():
        raise InputError(f"{folder} is a feature store; {model.name} takes a folder of photos")
    return PhotoFolder(folder, FeatureSource(**config.feature_source))


def check_features(model: Model, store: FeatureStore | PhotoFolder, transfer: bool) -> list[str]:
    """Compare a store with the features a model was trained on; any photos are accepted.

    Args:
        model: to measure.
        store: its input.
        transfer: accept other features of the same dimension.

    Returns:
        the differences (the model's against the store's), [] without `transfer`.

    Raises:
        InputError: if the dimensions differ, or anything else does without `transfer`.
    """
    config = model.model.config
    if isinstance(store, PhotoFolder):
        return []
    if store.source.dimension != config.feature_dim:
        raise InputError(
            f"{store.folder} has features of dimension {store.source.dimension}, "
            f"{model.name} takes {config.feature_dim}"
        )
    if config.feature_source is None:
        return []
    differences = FeatureSource(**config.feature_source).differences(store.source)
    if differences and not transfer:
        raise InputError(
            f"{store.folder} has other features than {model.name} was trained on (the model's "
            f"against the store's): {'; '.join(differences)}. Give --transfer to measure the model "
            "on them nevertheless"
        )
    return differences
