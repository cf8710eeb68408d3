"""From a configuration to the pieces of a run: photos, model, data loaders."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Subset
from transformers import BertConfig

from sparta.captions.read import CaptionedPhoto
from sparta.errors import InputError
from sparta.features.record import FeatureSource, ImageFeatures
from sparta.features.store import FeatureStore
from sparta.visualsparta.collate import ImageCollator
from sparta.visualsparta.init_bert import from_bert, from_config
from sparta.visualsparta.init_oscar import from_oscar
from sparta.visualsparta.model import TermCounts, VisualSparta, count_terms, pad_ids
from training.run import ProcessPart, Run
from training.visualsparta.config import ModelConfig, TrainConfig
from training.visualsparta.dataset import CaptionedFeatures, EpochSampler, Example, TrainingCollator
from training.visualsparta.lightning_module import SpartaTraining
from training.visualsparta.vocabulary import learn_vocabulary

log = logging.getLogger(__name__)

OSCAR = "oscar:"  # before the folder of a checkpoint to start from


def prepare_sparta(
    config: TrainConfig,
    views: Sequence[FeatureStore],
    photos: Sequence[CaptionedPhoto],
    held_out: Sequence[CaptionedPhoto],
    part: ProcessPart,
) -> Run:
    """Put a VisualSparta run together.

    Raises:
        InputError: if the model cannot be built as asked, or the batch does not fit.
    """
    model = build_model(config.model, views[0].source, photos)
    mark_trained_terms(model, caption_ids(model, photos))
    queries = validation_queries(model, held_out) if held_out else None
    return Run(
        SpartaTraining(model, config, queries),
        training_loader(config, views, photos, model, *part),
        validation_loader(config, views[0], held_out, model) if held_out else None,
    )


def build_model(
    config: ModelConfig, source: FeatureSource, photos: Sequence[CaptionedPhoto]
) -> VisualSparta:
    """The network at the start: from a checkpoint of Oscar's or of a BERT, or from nothing.

    Raises:
        InputError: if the checkpoint is not what it is said to be, or a field or option is unknown.
    """
    if config.init is not None and config.init.startswith(OSCAR):
        folder = config.init.removeprefix(OSCAR)
        return from_oscar(folder, source, config.layers, **config.options)
    if config.init is not None:
        return from_bert(config.init, source, config.layers, **config.options)
    texts = (text for photo in photos for text in photo.captions)
    tokenizer = learn_vocabulary(texts, config.vocabulary_size)
    if unknown := sorted(config.encoder.keys() - BertConfig().to_dict().keys()):
        raise InputError(f"model.encoder: BertConfig has no fields {unknown}")
    encoder = BertConfig(**{**config.encoder, "vocab_size": len(tokenizer.vocabulary)})
    return from_config(encoder, tokenizer, source, **config.options)


def caption_ids(model: VisualSparta, photos: Sequence[CaptionedPhoto]) -> list[list[list[int]]]:
    """Term ids of every caption of every photo."""
    assert model.tokenizer is not None
    return [[model.tokenizer.encode_ids(text) for text in photo.captions] for photo in photos]


def mark_trained_terms(model: VisualSparta, captions: Sequence[list[list[int]]]) -> None:
    """Record in the model which terms its training captions hold."""
    seen = {term for texts in captions for text in texts for term in text}
    model.trained_terms.zero_()
    model.trained_terms[sorted(seen)] = True


def validation_queries(
    model: VisualSparta, photos: Sequence[CaptionedPhoto]
) -> tuple[TermCounts, Tensor]:
    """Captions of the held-out photos, and the column of each one's own photo [Q] int64."""
    texts = caption_ids(model, photos)
    queries = count_terms(*pad_ids((ids for photo in texts for ids in photo), "cpu"))
    return queries, torch.tensor([i for i, photo in enumerate(texts) for _ in photo])


def training_loader(
    config: TrainConfig,
    views: Sequence[FeatureStore],
    photos: Sequence[CaptionedPhoto],
    model: VisualSparta,
    rank: int,
    world: int,
    epoch: int = 0,
) -> DataLoader[Example]:
    """Batches of photos with captions for one of `world` processes, from an epoch on.

    Raises:
        InputError: if the batch cannot be shared out, or is larger than the data.
    """
    if config.batch_size % world or config.batch_size > len(photos):
        raise InputError(
            f"batch_size: {config.batch_size} must be a multiple of {world} devices and at most "
            f"the {len(photos)} training photos"
        )
    sampler = EpochSampler(len(photos), config.seed, rank, world)
    # Loader processes ask for the first photos before the trainer tells the sampler its epoch.
    sampler.set_epoch(epoch)
    data = config.data
    dataset = CaptionedFeatures(
        views,
        [photo.image_id for photo in photos],
        caption_ids(model, photos),
        config.seed,
        data.captions_per_photo,
        data.word_dropout,
        data.region_dropout,
    )
    return DataLoader(
        dataset,
        batch_size=config.batch_size // world,
        sampler=sampler,
        collate_fn=TrainingCollator(_image_collator(model)),
        num_workers=config.workers,
        persistent_workers=config.workers > 0,
        drop_last=True,
        pin_memory=torch.cuda.is_available(),
    )


def validation_loader(
    config: TrainConfig, view: FeatureStore, photos: Sequence[CaptionedPhoto], model: VisualSparta
) -> DataLoader[ImageFeatures]:
    """The held-out photos in order, as the first view shows them."""
    rows = [view.index(photo.image_id) for photo in photos]
    return DataLoader(
        Subset(view, rows),  # type: ignore[arg-type]  # a store has all that a Dataset needs
        batch_size=64,
        collate_fn=_image_collator(model),
        num_workers=min(config.workers, 2),
        persistent_workers=config.workers > 0,
    )


def _image_collator(model: VisualSparta) -> ImageCollator:
    assert model.tokenizer is not None
    return ImageCollator.of(model.tokenizer, model.config)
