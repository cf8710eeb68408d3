"""Score matrices, recall in both directions, and captions compared by probability."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import accumulate, pairwise, product
from math import log
from statistics import fmean

import numpy as np
import torch
import torch.nn.functional as F
from rich.table import Table
from torch import Tensor

from sparta.captions.read import CaptionedPhoto
from sparta.errors import InputError
from sparta.json_values import Json
from sparta.metrics import LARGEST_BLOCK, Recall, ranks_by_block, recall
from sparta.progress import Progress, no_progress

BYTES_PER_SCORE = 6  # float32 score, int16 position
LARGEST = 8 * 10**9  # bytes


@dataclass(frozen=True)
class Scores:
    """A matrix of T texts × N images that is never whole in memory."""

    shape: tuple[int, int]  # T and N
    # Scores of some texts for some images, [t, n] float32, on the device of what they are made of.
    block: Callable[[slice, slice], Tensor]
    vectors: tuple[Tensor, Tensor] | None = None  # a dense model's: [T, 1, D] and [N, K, D]

    def rows(self, texts: slice) -> Tensor:
        """Scores of some texts for all images, [t, N]."""
        return self.block(texts, slice(None))

    def columns(self, images: slice) -> Tensor:
        """Scores of some images for all texts, [n, T]."""
        return self.block(slice(None), images).T

    def select(self, texts: slice, images: slice) -> Scores:
        """The submatrix of some texts and images."""
        rows, columns = range(self.shape[0])[texts], range(self.shape[1])[images]

        def block(some: slice, others: slice) -> Tensor:
            first, second = rows[some], columns[others]
            return self.block(slice(first.start, first.stop), slice(second.start, second.stop))

        return Scores((len(rows), len(columns)), block)


def dense_scores(queries: Tensor, items: Tensor) -> Scores:
    """The best inner product over all pairs of views (MV-VSE, equation 6).

    Args:
        queries: [T, K, D] float32; a text has one view.
        items: [N, L, D] float32, on the same device.
    """

    def block(some: slice, others: slice) -> Tensor:
        views = product(queries[some].unbind(1), items[others].unbind(1))
        return reduce(torch.maximum, (query @ item.T for query, item in views))

    return Scores((len(queries), len(items)), block, (queries, items))


def sparse_scores(texts: Sequence[Sequence[int]], weights: Tensor) -> Scores:
    """Equation 12 of VisualSparta: the sum of the scores of a text's terms.

    Args:
        texts: the terms of each, as rows of `weights`; repeated terms count repeatedly.
        weights: [U, N] float32, each term's score in every image.
    """
    ends = torch.tensor([0, *map(len, texts)]).cumsum(0).to(weights.device)
    terms = torch.tensor([term for text in texts for term in text], dtype=torch.int64)
    terms = terms.to(weights.device)

    def block(some: slice, images: slice) -> Tensor:
        first, end, _ = some.indices(len(texts))
        own = ends[first : end + 1]
        return F.embedding_bag(
            terms[own[0] : own[-1]],
            weights[:, images].contiguous(),
            own[:-1] - own[0],
            mode="sum",
        )

    return Scores((len(texts), weights.shape[1]), block)


def mean_scores(members: Sequence[Scores]) -> Scores:
    """The ensemble of GPO section 5.1.1: the mean of the scores of at least one model."""

    def block(texts: slice, images: slice) -> Tensor:
        parts = [member.block(texts, images) for member in members]
        return sum(parts[1:], parts[0]) / len(parts)

    return Scores(members[0].shape, block)


def check_memory(images: int, terms: int) -> None:
    """Refuse term scores that would not fit in memory.

    Raises:
        InputError: if the scores of so many images would take more than 8 GB.
    """
    needed = BYTES_PER_SCORE * images * terms
    if needed > LARGEST:
        raise InputError(
            f"the scores of {images:,} images for {terms:,} terms take {needed / 1e9:.1f} GB, "
            f"over {LARGEST / 1e9:g} GB: choose at most "
            f"{LARGEST // (BYTES_PER_SCORE * terms):,} images"
        )


@dataclass(frozen=True)
class ProtocolRecall:
    """Recall in both directions by a protocol, with ties="pessimistic" (see `sparta.metrics`)."""

    protocol: str
    folds: int  # measured separately; all figures, median ranks too, are means over them
    images: int  # of all folds together, as the captions
    captions: int
    text_to_image: Recall  # each caption searches for its photo
    image_to_text: Recall  # each photo searches for any of its captions
    missing: int = 0  # photos of the protocol that were left out
    # Of each fold: text → image [captions] and image → text [photos]
    ranks: Sequence[tuple[Tensor, Tensor]] = field(default=(), repr=False, compare=False)

    @property
    def name(self) -> str:
        """The protocol, or what is left of it."""
        if not self.missing:
            return self.protocol
        return f"{self.protocol} without {self.missing:,} of {self.images + self.missing:,} photos"

    @property
    def rsum(self) -> float:
        """The sum of the six recalls."""
        return sum(self.text_to_image[:3]) + sum(self.image_to_text[:3])

    def record(self) -> Json:
        """The figures for programs."""
        ways = {
            "text_to_image": self.text_to_image._asdict(),
            "image_to_text": self.image_to_text._asdict(),
        }
        figures = {name: value for name, value in vars(self).items() if name != "ranks"}
        return {**figures, "protocol": self.name, **ways, "rsum": self.rsum}

    def table(self) -> Table:
        """The figures for a terminal."""
        mean = f", mean of {self.folds} folds" if self.folds > 1 else ""
        title = f"{self.name}: {self.images:,} images, {self.captions:,} captions{mean}"
        ways = {"text → image": self.text_to_image, "image → text": self.image_to_text}
        lines = [f"RSUM {self.rsum:.1f}"]
        if self.missing and self.protocol != "all":
            lines.append(f"Not comparable with figures of {self.protocol}: photos are missing")
        return recall_table(title, ways, lines)


def recall_table(title: str, ways: dict[str, Recall], lines: Sequence[str] = ()) -> Table:
    """One row for each direction, and lines below."""
    table = Table(title=title, title_justify="left", caption_justify="left", min_width=len(title))
    for column in ("", "R@1", "R@5", "R@10", "median rank"):
        table.add_column(column, justify="right" if column else "left")
    for way, found in ways.items():
        shares = (f"{share:.1f}" for share in found[:3])
        table.add_row(way, *shares, f"{found.median_rank:g}")
    table.caption = "\n".join(lines)
    return table


def measure_recall(
    protocol: str,
    folds: Sequence[Sequence[CaptionedPhoto]],
    scores: Scores,
    progress: Progress = no_progress,
    missing: int = 0,
) -> ProtocolRecall:
    """Recall in both directions, averaged over the folds.

    Args:
        protocol: what chose the folds.
        folds: not empty; their photos one after another are the columns of the scores, and those
            photos' captions one after another the rows.
        scores: of all captions for all photos.
        progress: of the stage "rank", in queries of both directions.
        missing: photos of the protocol that the folds lack.
    """
    texts, images, total = 0, 0, sum(scores.shape)
    found = []
    for fold in folds:
        captions = [len(photo.captions) for photo in fold]
        rows, columns = slice(texts, texts + sum(captions)), slice(images, images + len(fold))
        part = scores.select(rows, columns)
        found.append(_both_directions(part, captions, after(texts + images, total, progress)))
        texts, images = rows.stop, columns.stop
    to_image, to_text = (
        Recall(*map(fmean, zip(*map(recall, way), strict=True))) for way in zip(*found, strict=True)
    )
    return ProtocolRecall(protocol, len(folds), images, texts, to_image, to_text, missing, found)


def _both_directions(
    scores: Scores, captions: Sequence[int], progress: Progress
) -> tuple[Tensor, Tensor]:
    """Text → image and image → text ranks of one fold; `captions` counts those of each photo."""
    texts, images = scores.shape
    photos = [[photo] for photo, count in enumerate(captions) for _ in range(count)]
    captions_of = [range(first, end) for first, end in pairwise(accumulate(captions, initial=0))]
    text_to_image = ranks_by_block(
        scores.rows, images, photos, ties="pessimistic", progress=progress
    )
    image_to_text = ranks_by_block(
        scores.columns,
        texts,
        captions_of,
        ties="pessimistic",
        progress=after(texts, texts + images, progress),
    )
    return text_to_image, image_to_text


SAMPLE = 2000  # reference images at most; more change little
SEED = 0


@dataclass(frozen=True)
class ReferenceImages:
    """The images u over which a caption's mean is taken."""

    image_ids: Sequence[str]  # at least one, none of them a measured image
    temperature: float  # τ, of the model's training
    seed: int | None = None  # that they were drawn with; None for all images of the split
    missing: int = 0  # images that were left out

    @classmethod
    def sample(cls, image_ids: Sequence[str], temperature: float) -> ReferenceImages:
        """All images, or `SAMPLE` of them, drawn with a fixed seed."""
        if len(image_ids) > SAMPLE:
            chosen = np.random.default_rng(SEED).choice(len(image_ids), SAMPLE, replace=False)
            image_ids = [image_ids[place] for place in sorted(chosen.tolist())]
            return cls(image_ids, temperature, SEED)
        return cls(image_ids, temperature)

    def without(self, missing: set[str]) -> ReferenceImages:
        """The same but for images that are left out."""
        kept = [one for one in self.image_ids if one not in missing]
        return replace(self, image_ids=kept, missing=len(missing))


def caption_posterior(scores: Scores, reference: Scores, temperature: float) -> Scores:
    """τ log P(v | q), up to a constant: comparable between captions, and between images as f is.

    A caption's f is lowered by τ log mean_u exp(f(q, u) / τ) over the reference images u.

    Args:
        scores: f, of T texts and N images.
        reference: f of the same texts and the reference images.
        temperature: τ.
    """
    texts, images = reference.shape
    size = max(1, LARGEST_BLOCK // images)
    parts = [
        (reference.rows(slice(start, start + size)) / temperature).logsumexp(dim=1)
        for start in range(0, texts, size)
    ]
    normalisers = temperature * (torch.cat(parts) - log(images))
    return Scores(scores.shape, lambda some, own: scores.block(some, own) - normalisers[some, None])


def part_of(number: int, parts: int, progress: Progress) -> Progress:
    """Report one of several equal parts; the first has number 0."""
    return lambda stage, done, total: progress(stage, number * total + done, parts * total)


def after(done_before: int, total: int, progress: Progress) -> Progress:
    """Report a part that follows `done_before` of `total` units."""
    return lambda stage, done, _: progress(stage, done_before + done, total)
