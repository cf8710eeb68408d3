"""Dense VSE models in training: a Lightning module, and the preparation of a run."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sparta.captions.read import CaptionedPhoto
from sparta.errors import InputError
from sparta.features.record import FeatureSource
from sparta.features.store import FeatureStore
from sparta.metrics import captions_of_images, ranks, recall
from sparta.text_encoder import encoder_config
from sparta.vse.batch import PixelBatch, RegionBatch, TextBatch, collate_images, collate_texts
from sparta.vse.encoders import PhotoFolder
from sparta.vse.init import check_options, from_bert, from_captions
from sparta.vse.model import VseModel, score, view_scores
from training.module import (
    PairSampler,
    ProcessPart,
    Run,
    TrainingModule,
    batches,
    check_batch_size,
    gather_columns,
    validation_batches,
)
from training.vse.config import VseModelConfig, VseTrainConfig
from training.vse.data import CaptionedImages, PairBatch, collate_pairs, drop_vectors
from training.vse.losses import adopt, triplet

CAPTIONS_AT_ONCE = 1024


class VseTraining(TrainingModule):
    """Trains a dense model with the configured objective.

    Args:
        validation: captions of the held-out photos, and the position of each caption's photo [Q]
            int64; None if no photos are held out.
    """

    def __init__(
        self,
        model: VseModel,
        config: VseTrainConfig,
        validation: tuple[TextBatch, Tensor] | None = None,
    ) -> None:
        super().__init__()
        self.model: VseModel = model
        self.config: VseTrainConfig = config
        self.validation = validation
        self._held_out: list[Tensor] = []
        for part, rate in self._pretrained():
            if not rate:
                part.requires_grad_(False)

    def _pretrained(self) -> list[tuple[nn.Module, float]]:
        """The pretrained parts, each with the factor on its learning rate."""
        model, config = self.model, self.config
        parts = (model.text_encoder, config.text_rate), (model.vision, config.vision_rate)
        return [(part, rate) for part, rate in parts if part is not None]

    def on_train_epoch_start(self) -> None:
        """Freeze a pretrained vision network for the first epochs."""
        if self.model.vision is not None:
            frozen = self.current_epoch < self.config.vision_frozen_epochs
            learns = not frozen and self.config.vision_rate > 0
            self.model.vision.requires_grad_(learns).train(learns)

    def training_step(self, batch: PairBatch, step: int) -> Tensor:
        """The objective over the pairs of all processes."""
        images = self.model.encode_images(self._augmented(batch.images))
        texts = gather_columns(self.model.encode_texts(batch.texts).T).T
        gathered = gather_columns(images.flatten(1).T).T.unflatten(1, images.shape[1:])
        photos = gather_columns(batch.photos[None])[0]
        similarities = view_scores(texts.float(), gathered.float())
        loss = self._objective(similarities, photos[:, None] != photos)
        self.log("loss", loss, prog_bar=True, on_epoch=True, on_step=False)
        return loss * self._loss_share(step)

    def _augmented(self, images: RegionBatch | PixelBatch) -> RegionBatch:
        """Features as they are; what the vision network gives, with vectors dropped.

        Draws depend on seed, step and process, as those of dropout do.
        """
        if isinstance(images, RegionBatch):
            return images
        rng = np.random.default_rng((self.config.seed, self.global_step, self.global_rank))
        return drop_vectors(self.model.look(images), self.config.augmentation.regions, rng)

    def _loss_share(self, step: int) -> float:
        """Share of the loss that counts at a step of the current epoch."""
        config = self.config
        learns = self.model.vision is not None and config.vision_rate > 0
        if not (learns and config.vision_warm_up):
            return 1.0
        first = self.current_epoch == config.vision_frozen_epochs
        return step / self.trainer.num_training_batches if first else 1.0

    def _objective(self, similarities: Tensor, different: Tensor) -> Tensor:
        """The configured loss of similarities [B, B, K] (text, image, view); scalar."""
        objective = self.config.objective
        if objective.kind == "adopt":
            best = similarities.amax(dim=2)
            found = adopt(best, different, objective.temperature, objective.variant)
            self.log("negatives", found.negatives.float().mean(), on_step=True)
            return found.loss
        kind, weight = objective.views, objective.weight
        kind = "max" if objective.kind == "triplet" else kind
        hardest = self.current_epoch >= objective.warm_up_epochs
        return triplet(similarities, different, objective.margin, kind, weight, hardest)

    # ---- validation: recall on the held-out photos ----------------------------------------------

    def validation_step(self, batch: RegionBatch | PixelBatch, step: int) -> None:
        """Collect the embeddings of the held-out photos."""
        self._held_out.append(self.model.encode_images(batch).float())

    def on_validation_epoch_end(self) -> None:
        """Log recall in both directions; the mean of all six selects the best checkpoint."""
        assert self.validation is not None
        images = torch.cat(self._held_out)
        self._held_out.clear()
        captions, targets = self.validation
        scores = score(self._embed(captions), images)
        captions_of = captions_of_images(targets, len(images))
        found = (
            recall(ranks(scores, targets[:, None].tolist(), ties="pessimistic")),
            recall(ranks(scores.T, captions_of, ties="pessimistic")),
        )
        self.log("val_caption_recall_1", found[1].at_1)
        self.log_recall(found[0], sum(sum(way[:3]) for way in found) / 6)

    def _embed(self, captions: TextBatch) -> Tensor:
        parts = (part.split(CAPTIONS_AT_ONCE) for part in captions)
        batches = (TextBatch(*part).to(self.device) for part in zip(*parts, strict=True))
        return torch.cat([self.model.encode_texts(batch).float() for batch in batches])

    # ---- optimisation ---------------------------------------------------------------------------

    def configure_optimizers(self) -> Any:
        """AdamW, with lower learning rates for pretrained parts."""
        config = self.config
        optimiser = torch.optim.AdamW(self._groups(), weight_decay=config.weight_decay)
        if config.schedule == "step":
            steps = torch.optim.lr_scheduler.MultiStepLR(optimiser, config.milestones, 0.1)
            return {"optimizer": optimiser, "lr_scheduler": steps}
        return self.scheduled(optimiser, config.warmup, config.schedule)

    def _groups(self) -> list[dict[str, Any]]:
        config, model = self.config, self.model
        factors: dict[nn.Parameter, float] = {}
        for part, factor in self._pretrained():
            factors |= dict.fromkeys(part.parameters(), factor)
        groups: dict[float, list[nn.Parameter]] = {}
        for parameter in model.parameters():
            rate = config.learning_rate * factors.get(parameter, 1.0)
            if rate:
                groups.setdefault(rate, []).append(parameter)
        return [{"params": parameters, "lr": rate} for rate, parameters in groups.items()]


# ---- preparing a run -----------------------------------------------------------------------------


def prepare_vse(
    config: VseTrainConfig,
    images: Sequence[FeatureStore] | PhotoFolder,
    photos: Sequence[CaptionedPhoto],
    held_out: Sequence[CaptionedPhoto],
    part: ProcessPart,
) -> Run:
    """Prepare a run of a dense model; an epoch has every pair of photo and caption."""
    first = images if isinstance(images, PhotoFolder) else images[0]
    model = build_model(config.model, first.source, photos)
    tokenizer, most = model.tokenizer, model.config.max_regions
    assert tokenizer is not None
    validation = None
    if held_out:
        ids = [tokenizer.encode(text) for photo in held_out for text in photo.captions]
        targets = torch.tensor([i for i, photo in enumerate(held_out) for _ in photo.captions])
        validation = collate_texts(ids, tokenizer.pad_id), targets
    names, captions = [one.image_id for one in photos], [one.captions for one in photos]
    dataset = CaptionedImages(images, names, captions, tokenizer, config.seed, config.augmentation)
    sampler = PairSampler(list(map(len, captions)), config.seed, part.rank, part.world)
    collate = partial(collate_pairs, pad_id=tokenizer.pad_id, max_regions=most)
    return Run(
        VseTraining(model, config, validation),
        batches(config, dataset, sampler, collate, part, "pairs"),
        validation_batches(config, first, held_out, partial(collate_images, max_regions=most)),
    )


def check_vse(config: VseTrainConfig, photos: Sequence[CaptionedPhoto]) -> None:
    """Refuse settings of a run that cannot be carried out."""
    check_batch_size(config.batch_size, sum(len(one.captions) for one in photos), "pairs")
    if config.augmentation.photos != "none" and not config.has_vision_network:
        raise InputError(
            "augmentation.photos is for a model with a vision network: set model.options.vision"
        )
    model = config.model
    check_options(model.options.keys() - {"vision"}, model.init is not None)
    if model.init is not None:
        encoder_config(model.init, model.layers)


def build_model(
    config: VseModelConfig, source: FeatureSource, photos: Sequence[CaptionedPhoto]
) -> VseModel:
    """The initial model: with a BERT-like text encoder, or a BiGRU over words of the captions."""
    if config.init is not None:
        return from_bert(config.init, source, layers=config.layers, **config.options)
    texts = [text for photo in photos for text in photo.captions]
    return from_captions(texts, source, min_count=config.min_count, **config.options)
