"""The training, validation and optimisation steps of VisualSparta, as a Lightning module."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import (
    is_parametrized,
    register_parametrization,
    remove_parametrizations,
)

from sparta.errors import InputError
from sparta.metrics import Recall, ranks, recall
from sparta.visualsparta.batch import ImageBatch
from sparta.visualsparta.model import TermCounts, VisualSparta, count_terms
from sparta.visualsparta.offsets import OFFSETS, training_offsets
from training.module import TrainingModule, gather_columns, gather_padded
from training.teacher.similarities import Teacher
from training.visualsparta.config import VisualSpartaTrainConfig
from training.visualsparta.dataset import TrainingBatch


def in_batch_cross_entropy(
    scores: Tensor,
    query_photos: Tensor,
    image_photos: Tensor,
    include_positive: bool = True,
    label_smoothing: float = 0.0,
) -> Tensor:
    """Equation 13, negated, with the batch's other photos as negatives.

    Two captions of one photo are never each other's negatives: of the columns that show the
    query's photo, the first is its positive and any further one is left out.

    Args:
        scores: [Q, B] float, f(q, v).
        query_photos: [Q] int64, the photo each caption describes.
        image_photos: [B] int64, the photo of each column.
        include_positive: whether the denominator includes the positive, as in standard
            cross-entropy; the printed equation sums over the negatives alone.
        label_smoothing: share of the target spread evenly over the positive and the negatives.

    Returns:
        scalar, mean over queries.

    Raises:
        ValueError: if a query's photo has no column.
        InputError: if the denominator is empty, as in a batch of one photo without the positive.
    """
    same = query_photos[:, None] == image_photos[None, :]
    if not bool(same.any(dim=1).all()):
        raise ValueError("the batch lacks the photo of one of its captions")
    positive = same.int().argmax(dim=1, keepdim=True)
    is_positive = torch.zeros_like(same).scatter(1, positive, True)
    candidates = ~same | is_positive
    denominator = candidates if include_positive else ~same
    if not bool(denominator.any(dim=1).all()):
        raise InputError(
            "include_positive: false needs a second photo in every batch, and one shows a single "
            "photo: raise batch_size, train on more photos, or set include_positive=true"
        )
    log_sum = scores.masked_fill(~denominator, float("-inf")).logsumexp(dim=1)
    target = scores.gather(1, positive)[:, 0]
    if label_smoothing:
        even = (scores * candidates).sum(dim=1) / candidates.sum(dim=1)
        target = (1 - label_smoothing) * target + label_smoothing * even
    return (log_sum - target).mean()


def soft_cross_entropy(scores: Tensor, targets: Tensor, image_to_text: float = 0.5) -> Tensor:
    """Cross-entropy against a teacher's distribution over the batch, in both directions.

    D2S (arXiv 2402.17535), probabilistic distillation. From image to text, scores are first
    centred for each query over the photos, as the teacher's are: longer queries have larger sums.

    Args:
        scores: [Q, B] float, f(q, v) divided by the temperature.
        targets: [Q, B] float, the teacher's similarities divided by its temperature.
        image_to_text: share of that direction, 0 to 1.

    Returns:
        scalar, mean over queries and over images.
    """
    centred = scores - scores.mean(dim=1, keepdim=True)
    to_images = -(targets.softmax(dim=1) * scores.log_softmax(dim=1)).sum(dim=1).mean()
    to_texts = -(targets.softmax(dim=0) * centred.log_softmax(dim=0)).sum(dim=0).mean()
    return (1 - image_to_text) * to_images + image_to_text * to_texts


def flops(term_scores: Tensor) -> Tensor:
    """Expected cost of scoring a random pair: Σ_t (mean over images of score_t)².

    The FLOPS regulariser of learned sparse retrieval (Paria et al., arXiv 2004.05665), which
    penalises terms with scores in many images most.

    Args:
        term_scores: [B, T] float, non-negative.

    Returns:
        scalar.
    """
    return term_scores.mean(dim=0).square().sum()


class VisualSpartaTraining(TrainingModule):
    """Trains a VisualSparta model with equation 13, a teacher's soft targets, or both.

    Args:
        validation: captions of the held-out photos as term counts over T terms, and for each
            caption the position of its photo [Q] int64; None if no photos are held out.
    """

    def __init__(
        self,
        model: VisualSparta,
        config: VisualSpartaTrainConfig,
        validation: tuple[TermCounts, Tensor] | None = None,
        teacher: Teacher | None = None,
    ) -> None:
        super().__init__()
        self.model: VisualSparta = model
        self.config: VisualSpartaTrainConfig = config
        self.validation = validation
        self.teacher = teacher
        self._held_out: list[Tensor] = []
        if not model.config.use_labels:
            # They get no gradient, which data-parallel training treats as an error.
            for parameter in model.encoder.embeddings.parameters():
                parameter.requires_grad_(parameter is model.query_embedding.weight)
        if config.model.query_embedding == "frozen":
            # Directions stay as pretrained; each term learns one factor, its importance.
            model.query_embedding.weight.requires_grad_(False)
            register_parametrization(model.query_embedding, "weight", _Scaled(len(model.indexable)))

    def training_step(self, batch: TrainingBatch, step: int) -> Tensor:
        """The objective over the photos and queries of all processes."""
        config, lesson = self.config, self.config.teacher
        ids, mask = gather_padded(batch.query_ids, batch.query_mask)
        queries = count_terms(ids, mask)
        term_scores = self.model.image_term_scores(batch.images, queries.terms)
        scores = gather_columns(queries.counts @ term_scores.T) / config.temperature
        query_photos = gather_columns(batch.query_photos[None])[0]
        photos = gather_columns(batch.photos[None])[0]
        losses: list[tuple[float, Tensor]] = []  # each with its weight
        captions, weight = query_photos >= 0, 0.0
        if lesson is not None and self.teacher is not None:
            numbers = gather_columns(batch.query_numbers[None])[0]
            targets = gather_columns(self.teacher(numbers, batch.photos)) / lesson.temperature
            weight = lesson.weight if captions.any() else 1.0
            losses.append((weight, soft_cross_entropy(scores, targets, lesson.image_to_text)))
        if weight < 1:
            own = scores[captions], query_photos[captions], photos
            options = config.include_positive, config.label_smoothing
            losses.append((1 - weight, in_batch_cross_entropy(*own, *options)))
        loss = torch.stack([share * one for share, one in losses]).sum()
        self.log("loss", loss, prog_bar=True, on_epoch=True, on_step=False)
        if config.flops:
            # The mean over the whole batch, as if one process held it.
            mean = gather_columns(term_scores.mean(dim=0)[:, None]).T
            cost = flops(mean)
            self.log("flops", cost, on_epoch=True, on_step=False)
            loss = loss + config.flops * cost
        return loss

    # ---- validation: recall of the unquantised model on the held-out photos ---------------------

    def validation_step(self, batch: ImageBatch, step: int) -> None:
        """Collect the held-out photos' scores for the terms of the validation captions."""
        assert self.validation is not None
        terms = self.validation[0].terms.to(self.device)
        self._held_out.append(self.model.image_term_scores([batch], terms).float())

    def on_validation_epoch_end(self) -> None:
        """Log R@1, R@5, R@10 and their mean, which selects the best checkpoint."""
        assert self.validation is not None
        term_scores = torch.cat(self._held_out)
        self._held_out.clear()
        queries, targets = self.validation
        result = self.recall(queries, targets, term_scores)
        self.log_recall(result, sum(result[:3]) / 3)

    def recall(self, queries: TermCounts, targets: Tensor, term_scores: Tensor) -> Recall:
        """Text-to-image recall, from the term scores [N, T] float of N images."""
        scores = queries.counts.to(self.device) @ term_scores.T
        return recall(ranks(scores, targets[:, None].tolist(), ties="pessimistic"))

    # ---- optimisation ---------------------------------------------------------------------------

    def configure_optimizers(self) -> Any:
        """Adam with separate learning rates for the query embedding and the region projection."""
        config = self.config
        # One pass over the parameters, nine times as fast on a CPU. With mixed precision, Lightning
        # cannot clip gradients for it.
        fused = self.trainer.precision == "32-true" or None
        optimiser = torch.optim.Adam(self._groups(), lr=config.learning_rate, fused=fused)
        return self.scheduled(optimiser, config.warmup, config.schedule)

    def save(self, folder: Path, training: Iterable[TrainingBatch]) -> None:
        """Save the model, each term's learnt importance in its query embedding, and its offsets."""
        if is_parametrized(self.model.query_embedding):
            remove_parametrizations(self.model.query_embedding, "weight", leave_parametrized=True)
        self.model.save_pretrained(folder)
        self.model.train(False)
        parts = (part for batch in training for part in batch.images)
        if found := training_offsets(self.model, parts):
            found.save(folder / OFFSETS)

    def _groups(self) -> list[dict[str, Any]]:
        config = self.config
        rates = {"query_embedding": config.query_learning_rate}
        rates["region_projection"] = config.projection_learning_rate
        groups: dict[float, list[nn.Parameter]] = {}
        for name, parameter in self.named_parameters():
            rate = next((r for part, r in rates.items() if part in name), None)
            if parameter.requires_grad:
                groups.setdefault(rate or config.learning_rate, []).append(parameter)
        return [{"params": parameters, "lr": rate} for rate, parameters in groups.items()]


class _Scaled(nn.Module):
    """Multiplies each row of an embedding by a trained importance."""

    def __init__(self, rows: int) -> None:
        super().__init__()
        self.importance = nn.Parameter(torch.ones(rows, 1))

    def forward(self, weight: Tensor) -> Tensor:
        return weight * self.importance
