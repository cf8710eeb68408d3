"""Similarity of a multi-view model's views, and the share each wins (MV-VSE, figure 4 b to d)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from matplotlib.figure import Figure
from torch import Tensor

from eval.plotting import panels
from eval.recall.bidirectional import measure_recall
from eval.recall.images import Images
from eval.recall.models import DenseModel
from eval.recall.score_matrix import DenseScores
from sparta.captions.read import CaptionedPhoto
from sparta.errors import InputError
from sparta.features.store import FeatureStore
from sparta.progress import Progress, no_progress
from sparta.vse.photo_folder import PhotoFolder


@dataclass(frozen=True)
class ViewStatistics:
    """Statistics of one model's views.

    Attributes:
        name: of the model in the figure.
        similarity: mean cosine of two views of an image, over all pairs and images.
        selected: for each view, the share (0 to 1) of captions to which it is the nearest view of
            their own image; the first of equals counts.
        rsum: sum of the six recalls.
    """

    name: str
    similarity: float
    selected: list[float]
    rsum: float


def measure_views(
    name: str,
    model: DenseModel,
    store: FeatureStore | PhotoFolder,
    photos: Sequence[CaptionedPhoto],
    batch_size: int,
    progress: Progress = no_progress,
) -> ViewStatistics:
    """Encode photos and captions, and compare the views.

    Raises:
        InputError: if the model has one view, or the store lacks a photo.
    """
    if model.model.config.views < 2:
        raise InputError(f"{model.name} has one view of an image: there is nothing to compare")
    rows = Images.of(store, [photo.image_id for photo in photos])
    texts = model.embed_texts([text for photo in photos for text in photo.captions], progress)
    images = model.embed_images(rows, batch_size, progress)
    counts = torch.tensor([len(photo.captions) for photo in photos])
    own = torch.arange(len(photos)).repeat_interleave(counts).to(texts.device)
    found = measure_recall(
        "all",
        [photos],
        DenseScores(texts, images),
        progress,
    )
    return ViewStatistics(
        name, view_similarity(images), view_selection(texts, images[own]), found.rsum
    )


def view_similarity(images: Tensor) -> float:
    """Mean cosine over all images and pairs of their views; images [N, K, D] unit vectors."""
    cosines = images @ images.transpose(1, 2)
    views = cosines.shape[1]
    first, second = torch.triu_indices(views, views, offset=1)
    return float(cosines[:, first, second].mean())


def view_selection(texts: Tensor, images: Tensor) -> list[float]:
    """Share of texts [T, D] won by each view of their own images [T, K, D]."""
    nearest = (images @ texts[:, :, None])[:, :, 0].argmax(dim=1)
    wins = torch.bincount(nearest, minlength=images.shape[1])
    return (wins / len(texts)).tolist()


def draw(studies: Sequence[ViewStatistics]) -> Figure:
    """Similarity and RSUM over the models, and for each model its views' shares."""
    figure, (left, *rest) = panels(1 + len(studies), width=3.2, height=3.2)
    names = [study.name for study in studies]
    left.bar(names, [study.similarity for study in studies], width=0.5, color="tab:blue")
    left.set_xlim(-0.6, len(studies) - 0.4)
    left.set_ylabel("cosine of two views", color="tab:blue")
    right = left.twinx()
    right.spines[["top"]].set_visible(False)
    right.plot(names, [study.rsum for study in studies], color="tab:orange", marker="o")
    right.set_ylabel("RSUM", color="tab:orange")
    for axes, study in zip(rest, studies, strict=True):
        views = [str(number) for number in range(1, len(study.selected) + 1)]
        axes.bar(views, [100 * share for share in study.selected], width=0.6, color="tab:green")
        axes.set_ylim(0, 100)
        axes.set_title(study.name)
        axes.set_xlabel("view")
        axes.set_ylabel("% of captions")
    return figure
