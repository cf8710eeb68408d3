"""Recall text → image and image → text, over the folds of a protocol."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from statistics import fmean
from typing import Any

from rich.table import Table

from eval.progress_parts import after
from eval.recall.score_matrix import Scores
from sparta.captions.read import CaptionedPhoto
from sparta.metrics import Recall, ranks_by_block, recall
from sparta.progress import Progress, no_progress


@dataclass(frozen=True)
class ProtocolRecall:
    """Recall in both directions by a protocol, with ties="pessimistic" (see `sparta.metrics`).

    Attributes:
        protocol: its name.
        folds: galleries measured separately; all figures, median ranks too, are means over them.
        images: of all folds together.
        captions: of all folds together.
        text_to_image: each caption searches for its photo.
        image_to_text: each photo searches for any of its captions.
    """

    protocol: str
    folds: int
    images: int
    captions: int
    text_to_image: Recall
    image_to_text: Recall

    @property
    def rsum(self) -> float:
        """The sum of the six recalls."""
        return sum(self.text_to_image[:3]) + sum(self.image_to_text[:3])

    def record(self) -> dict[str, Any]:
        """The figures for programs."""
        ways = {
            "text_to_image": self.text_to_image._asdict(),
            "image_to_text": self.image_to_text._asdict(),
        }
        return {**vars(self), **ways, "rsum": self.rsum}

    def table(self) -> Table:
        """The figures for a terminal."""
        mean = f", mean of {self.folds} folds" if self.folds > 1 else ""
        title = f"{self.protocol}: {self.images:,} images, {self.captions:,} captions{mean}"
        table = recall_table(
            title, {"text → image": self.text_to_image, "image → text": self.image_to_text}
        )
        table.caption = f"RSUM {self.rsum:.1f}"
        return table


def recall_table(title: str, ways: dict[str, Recall]) -> Table:
    """One row for each direction."""
    table = Table(title=title, title_justify="left", caption_justify="left", min_width=len(title))
    for column in ("", "R@1", "R@5", "R@10", "median rank"):
        table.add_column(column, justify="right" if column else "left")
    for way, found in ways.items():
        shares = (f"{share:.1f}" for share in found[:3])
        table.add_row(way, *shares, f"{found.median_rank:g}")
    return table


def measure_recall(
    protocol: str,
    folds: Sequence[Sequence[CaptionedPhoto]],
    scores: Scores,
    progress: Progress = no_progress,
) -> ProtocolRecall:
    """Recall in both directions, averaged over the folds.

    Args:
        protocol: what chose the folds.
        folds: not empty; their photos one after another are the columns of the scores, and those
            photos' captions one after another the rows.
        scores: of all captions for all photos.
        progress: of the stage "rank", in queries of both directions.
    """
    texts, images, total = 0, 0, sum(scores.shape)
    found = []
    for fold in folds:
        captions = [len(photo.captions) for photo in fold]
        rows, columns = slice(texts, texts + sum(captions)), slice(images, images + len(fold))

        part = scores.select(rows, columns)
        found.append(_both_directions(part, captions, after(texts + images, total, progress)))
        texts, images = rows.stop, columns.stop
    ways = [Recall(*map(fmean, zip(*way, strict=True))) for way in zip(*found, strict=True)]
    return ProtocolRecall(protocol, len(folds), images, texts, *ways)


def _both_directions(
    scores: Scores, captions: Sequence[int], progress: Progress
) -> tuple[Recall, Recall]:
    """Text → image and image → text recall of one fold; `captions` counts those of each photo."""
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
    return recall(text_to_image), recall(image_to_text)
