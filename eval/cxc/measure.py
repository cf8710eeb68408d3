"""Recall in the four directions of Crisscrossed Captions (CxC)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from rich.table import Table

from eval.cxc.relevance import (
    IMAGE_TO_IMAGE,
    IMAGE_TO_TEXT,
    TEXT_TO_IMAGE,
    TEXT_TO_TEXT,
    RelevantItems,
)
from eval.progress_parts import after, part_of
from eval.recall.images import Images
from eval.recall.model import EvaluatedModel
from eval.recall.protocols import coco_number
from eval.recall.scores import DenseScores, mean_of, recall_table
from sparta.errors import InputError
from sparta.features.store import FeatureStore
from sparta.metrics import Block, Recall, ranks_by_block, recall
from sparta.progress import Progress, no_progress
from sparta.vse.photo_folder import PhotoFolder


@dataclass(frozen=True)
class CxcRecall:
    """Recall of a model or an ensemble.

    Attributes:
        members: several form an ensemble.
        images: searched among.
        captions: searched among.
        ways: direction → number of queries and their recall. A sparse model has no vectors to
            compare two captions or two images, so it has only the first two.
    """

    members: Sequence[EvaluatedModel]
    images: int
    captions: int
    ways: dict[str, tuple[int, Recall]]

    def record(self) -> dict[str, Any]:
        """The figures as JSON values."""
        ways = {
            name.replace(" → ", "_to_"): {"queries": queries, **found._asdict()}
            for name, (queries, found) in self.ways.items()
        }
        models = [member.record() for member in self.members]
        return {"images": self.images, "captions": self.captions, **ways, "models": models}

    def table(self) -> Table:
        """The figures as a table."""
        title = f"CxC: {self.images:,} images, {self.captions:,} captions"
        return recall_table(
            title,
            {f"{name}, {queries:,} queries": found for name, (queries, found) in self.ways.items()},
        )


def measure_cxc(
    members: Sequence[EvaluatedModel],
    right: RelevantItems,
    sentences: dict[int, str],
    batch_size: int,
    progress: Progress = no_progress,
) -> CxcRecall:
    """Measure a model, or an ensemble by the mean of its members' scores.

    Args:
        members: at least one, each with a store whose image ids end with COCO's numbers.
        right: of a split.
        sentences: texts of its captions, by number.
        batch_size: images per pass.
        progress: of the stages "texts", "images" and "rank".

    Raises:
        InputError: if a text or an image is missing.
    """
    missing = [caption for caption in right.captions if caption not in sentences]
    if missing:
        raise InputError(f"--captions lacks {len(missing)} captions, number {missing[0]} for one")
    texts = [sentences[caption] for caption in right.captions]
    parts = [
        _blocks(member, texts, right.images, batch_size, part_of(number, len(members), progress))
        for number, member in enumerate(members)
    ]
    names = [name for name in right.ways if all(name in part for part in parts)]
    sizes = [len(right.ways[name]) for name in names]
    ways = {
        name: _way(name, right, [part[name] for part in parts], after(before, sum(sizes), progress))
        for name, before in zip(names, accumulate(sizes, initial=0), strict=False)
    }
    return CxcRecall(members, len(right.images), len(texts), ways)


def _way(
    name: str, right: RelevantItems, blocks: Sequence[Block], progress: Progress
) -> tuple[int, Recall]:
    """The number of queries in a direction, and their recall by the mean of the scores."""
    answers = right.ways[name]
    ranks = ranks_by_block(
        lambda part: mean_of([block(part) for block in blocks]),
        len(right.captions if name in (IMAGE_TO_TEXT, TEXT_TO_TEXT) else right.images),
        answers,
        ties="pessimistic",
        without_self=name in (TEXT_TO_TEXT, IMAGE_TO_IMAGE),
        progress=progress,
    )
    asked = ranks[[bool(items) for items in answers]]
    return len(asked), recall(asked)


def _blocks(
    member: EvaluatedModel,
    texts: Sequence[str],
    images: Sequence[int],
    batch_size: int,
    progress: Progress,
) -> dict[str, Block]:
    """Direction → function that computes its scores, for the directions the member supports."""
    own = Images.of(member.store, _store_ids(member.store, images))
    scores = member.model.scores(texts, own, batch_size, progress)
    blocks: dict[str, Block] = {TEXT_TO_IMAGE: scores.rows, IMAGE_TO_TEXT: scores.columns}
    if isinstance(scores, DenseScores):
        blocks |= {TEXT_TO_TEXT: scores.between_texts, IMAGE_TO_IMAGE: scores.between_images}
    return blocks


def _store_ids(store: FeatureStore | PhotoFolder, images: Sequence[int]) -> list[str]:
    known = {coco_number(image_id): image_id for image_id in store.ids}
    missing = [image for image in images if image not in known]
    if missing:
        raise InputError(
            f"{store.folder} lacks {len(missing)} of the {len(images)} judged images, COCO's "
            f"number {missing[0]} for one: extract them, or choose the --split that it contains"
        )
    return [known[image] for image in images]
