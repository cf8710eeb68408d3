"""The training, validation and optimisation steps of dense VSE models, as a Lightning module."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sparta.metrics import captions_of_images, ranks, recall
from sparta.vse.batch import PixelBatch, RegionBatch, TextBatch
from sparta.vse.model import VseModel, score, view_scores
from training.distributed import gather_columns
from training.module import TrainingModule
from training.vse.adopt import adopt
from training.vse.config import VseTrainConfig
from training.vse.multi_view import multi_view_softmax, multi_view_triplet
from training.vse.pairs import PairBatch, drop_vectors
from training.vse.triplet import triplet

CAPTIONS_AT_ONCE = 1024


class VseTraining(TrainingModule):
    """Trains a dense model with the configured objective.

    Args:
        model: trained in place.
        config: settings of the run.
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
        for part, rate in (
            (model.text_encoder, config.text_rate),
            (model.vision, config.vision_rate),
        ):
            if part is not None and not rate:
                part.requires_grad_(False)

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
        hardest = self.current_epoch >= objective.warm_up_epochs
        match objective.kind:
            case "triplet":
                best = similarities.amax(dim=2)
                return triplet(best, different, objective.margin, hardest)
            case "adopt":
                best = similarities.amax(dim=2)
                found = adopt(best, different, objective.temperature, objective.variant)
                self.log("negatives", found.negatives.float().mean(), on_step=True)
                return found.loss
            case "multi-view-triplet":
                return multi_view_triplet(
                    similarities,
                    different,
                    objective.margin,
                    objective.views,
                    objective.weight,
                    hardest,
                )
            case "multi-view-softmax":
                return multi_view_softmax(
                    similarities,
                    different,
                    objective.temperature,
                    objective.views,
                    objective.weight,
                )

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
        for part, factor in (
            (model.text_encoder, config.text_rate),
            (model.vision, config.vision_rate),
        ):
            factors |= dict.fromkeys(part.parameters(), factor) if part else {}
        groups: dict[float, list[nn.Parameter]] = {}
        for parameter in model.parameters():
            rate = config.learning_rate * factors.get(parameter, 1.0)
            if rate:
                groups.setdefault(rate, []).append(parameter)
        return [{"params": parameters, "lr": rate} for rate, parameters in groups.items()]
