"""VisualSparta in training: objectives, a Lightning module, and the preparation of a run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import (
    is_parametrized,
    register_parametrization,
    remove_parametrizations,
)
from torch.utils.data import DataLoader
from transformers import BertConfig

from sparta.captions.read import CaptionedPhoto
from sparta.errors import InputError
from sparta.features.record import FeatureSource
from sparta.features.store import FeatureStore
from sparta.metrics import ranks, recall
from sparta.text_encoder import encoder_config, load_word_pieces
from sparta.tokenizer import text_frequencies
from sparta.visualsparta.batch import ImageBatch, ImagePadder
from sparta.visualsparta.init import (
    check_options,
    from_bert,
    from_config,
    from_oscar,
    read_oscar_config,
)
from sparta.visualsparta.model import TermCounts, VisualSparta, count_terms, pad_ids
from sparta.visualsparta.offsets import OFFSETS, training_offsets
from training.module import (
    EpochSampler,
    PairSampler,
    ProcessPart,
    Run,
    TrainingModule,
    batches,
    check_batch_size,
    gather_columns,
    gather_padded,
    near_by_label,
    validation_batches,
)
from training.visualsparta.config import (
    VisualSpartaModelConfig,
    VisualSpartaTrainConfig,
)
from training.visualsparta.data import (
    CaptionedFeatures,
    TrainingBatch,
    TrainingCollator,
    TrainingExample,
    learn_vocabulary,
)

OSCAR = "oscar:"  # prefix of `model.init` for the folder of an Oscar checkpoint


def in_batch_cross_entropy(
    scores: Tensor,
    query_photos: Tensor,
    image_photos: Tensor,
    include_positive: bool = True,
    label_smoothing: float = 0.0,
) -> Tensor:
    """Equation 13, negated, with the batch's other photos as negatives: the mean over queries.

    Two captions of one photo are never each other's negatives: of the columns that show the
    query's photo, the first is its positive and any further one is left out.

    Args:
        scores: [Q, B] float, f(q, v).
        query_photos: [Q] int64, the photo each caption describes, which has a column.
        image_photos: [B] int64, the photo of each column.
        include_positive: whether the denominator includes the positive, as in standard
            cross-entropy; the printed equation sums over the negatives alone.
        label_smoothing: share of the target spread evenly over the positive and the negatives.
    """
    same = query_photos[:, None] == image_photos[None, :]
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


def flops(term_scores: Tensor) -> Tensor:
    """Expected cost of scoring a random pair: Σ_t (mean over images of score_t)².

    The FLOPS regulariser of learned sparse retrieval (Paria et al., arXiv 2004.05665), which
    penalises terms with scores in many of the images [B, T] most.
    """
    return term_scores.mean(dim=0).square().sum()


class VisualSpartaTraining(TrainingModule):
    """Trains a VisualSparta model with equation 13.

    Args:
        validation: captions of the held-out photos as term counts over T terms, and for each
            caption the position of its photo [Q] int64; None if no photos are held out.
    """

    def __init__(
        self,
        model: VisualSparta,
        config: VisualSpartaTrainConfig,
        validation: tuple[TermCounts, Tensor] | None = None,
    ) -> None:
        super().__init__()
        self.model: VisualSparta = model
        self.config: VisualSpartaTrainConfig = config
        self.validation = validation
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
        """The objective over the photos and captions of all processes."""
        config = self.config
        ids, mask = gather_padded(batch.query_ids, batch.query_mask)
        queries = count_terms(ids, mask)
        term_scores = self.model.image_term_scores(batch.images, queries.terms)
        scores = gather_columns(queries.counts @ term_scores.T) / config.temperature
        query_photos = gather_columns(batch.query_photos[None])[0]
        photos = gather_columns(batch.photos[None])[0]
        options = config.include_positive, config.label_smoothing
        loss = in_batch_cross_entropy(scores, query_photos, photos, *options)
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
        queries, targets = self.validation
        scores = queries.counts.to(self.device) @ torch.cat(self._held_out).T
        self._held_out.clear()
        result = recall(ranks(scores, targets[:, None].tolist(), ties="pessimistic"))
        self.log_recall(result, sum(result[:3]) / 3)

    # ---- optimisation ---------------------------------------------------------------------------

    def configure_optimizers(self) -> Any:
        """Adam with separate learning rates for the query embedding and the region projection."""
        config = self.config
        # One pass over the parameters, nine times as fast on a CPU. With mixed precision, Lightning
        # cannot clip gradients for it.
        fused = self.trainer.precision == "32-true" or None
        optimiser = torch.optim.Adam(self._groups(), lr=config.learning_rate, fused=fused)
        return self.scheduled(optimiser, config.warmup, config.schedule)

    def finish(self, folder: Path, training: Iterable[TrainingBatch]) -> None:
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


# ---- preparing a run -----------------------------------------------------------------------------


def prepare_visualsparta(
    config: VisualSpartaTrainConfig,
    stores: Sequence[FeatureStore],
    photos: Sequence[CaptionedPhoto],
    held_out: Sequence[CaptionedPhoto],
    part: ProcessPart,
) -> Run:
    """Prepare a VisualSparta run."""
    texts = [text for photo in photos for text in photo.captions]
    model = build_model(config.model, stores[0].source, texts)
    assert model.tokenizer is not None
    ids = map(model.tokenizer.encode_ids, texts)
    frequencies = torch.from_numpy(text_frequencies(ids, len(model.term_frequencies)))
    model.term_frequencies.copy_(frequencies)
    model.trained_terms.copy_(frequencies > 0)
    queries = None
    if held_out:
        tokenizer = model.tokenizer
        own = [[tokenizer.query_ids(text) for text in photo.captions] for photo in held_out]
        counts = count_terms(*pad_ids((ids for photo in own for ids in photo), "cpu"))
        queries = counts, torch.tensor([i for i, photo in enumerate(own) for _ in photo])
    images = ImagePadder.of(model.tokenizer, model.config)
    return Run(
        VisualSpartaTraining(model, config, queries),
        training_loader(config, stores, photos, model, part),
        validation_batches(config, stores[0], held_out, images),
    )


def check_visualsparta(config: VisualSpartaTrainConfig, photos: Sequence[CaptionedPhoto]) -> None:
    """Refuse settings of a run that cannot be carried out."""
    pairs = sum(len(photo.captions) for photo in photos)
    examples = pairs if config.data.epoch == "pairs" else len(photos)
    check_batch_size(config.batch_size, examples, config.data.epoch)
    check_options(config.model.options)
    init = config.model.init
    if init is None:
        _check_encoder_fields(config.model)
    elif init.startswith(OSCAR):
        read_oscar_config(Path(init.removeprefix(OSCAR)))
    else:
        encoder_config(init, config.model.layers)
        load_word_pieces(init)


def build_model(
    config: VisualSpartaModelConfig, source: FeatureSource, texts: Iterable[str]
) -> VisualSparta:
    """The initial model: of an Oscar or BERT checkpoint, or random with a vocabulary of texts."""
    if config.init is not None and config.init.startswith(OSCAR):
        folder = config.init.removeprefix(OSCAR)
        return from_oscar(folder, source, config.layers, **config.options)
    if config.init is not None:
        return from_bert(config.init, source, config.layers, **config.options)
    tokenizer = learn_vocabulary(texts, config.vocabulary_size)
    _check_encoder_fields(config)
    encoder = BertConfig(**{**config.encoder, "vocab_size": len(tokenizer.vocabulary)})
    return from_config(encoder, tokenizer, source, **config.options)


def _check_encoder_fields(config: VisualSpartaModelConfig) -> None:
    if unknown := sorted(config.encoder.keys() - BertConfig().to_dict().keys()):
        raise InputError(f"model.encoder: BertConfig has no fields {unknown}")


def caption_ids(model: VisualSparta, photos: Sequence[CaptionedPhoto]) -> list[list[list[int]]]:
    """Term ids of every caption of every photo."""
    assert model.tokenizer is not None
    return [[model.tokenizer.encode_ids(text) for text in photo.captions] for photo in photos]


def training_loader(
    config: VisualSpartaTrainConfig,
    stores: Sequence[FeatureStore],
    photos: Sequence[CaptionedPhoto],
    model: VisualSparta,
    part: ProcessPart,
) -> DataLoader[TrainingExample]:
    """Batches of photos with captions; see `batches`."""
    assert model.tokenizer is not None
    data = config.data
    sampler = EpochSampler(len(photos), config.seed, part.rank, part.world)
    if data.epoch == "pairs":
        counts = [len(photo.captions) for photo in photos]
        sampler = PairSampler(counts, config.seed, part.rank, part.world)
    if data.negatives == "labels":
        rows = [stores[0].index(photo.image_id) for photo in photos]
        sampler.places = near_by_label([stores[0][row].labels for row in rows])
    dataset = CaptionedFeatures(
        stores,
        [photo.image_id for photo in photos],
        caption_ids(model, photos),
        config.seed,
        data.captions_per_photo,
        data.word_dropout,
        data.region_dropout,
    )
    collate = TrainingCollator(ImagePadder.of(model.tokenizer, model.config))
    return batches(config, dataset, sampler, collate, part, data.epoch)
