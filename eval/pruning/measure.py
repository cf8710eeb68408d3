"""The effect of pruning and quantisation on recall and on the first ten hits."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch

from eval.pruning.index import Indexes, PrunedIndex, PruningChoice, TermScoreMatrix
from eval.pruning.queries import QueryGroups, overlap
from eval.pruning.results import PruningRow, PruningStudy
from eval.recall.missing import missing_in
from eval.recall.protocols import Images
from eval.recall.scores import check_memory, part_of
from indexer.encoding.asked import AskedTerms, asked_terms, trained_frequencies
from indexer.encoding.stores import check_stores
from indexer.encoding.term_scores import ImageEncoder
from indexer.pruning import estimate_offsets
from indexer.settings import TermSet, check_bits
from sparta.captions.matching import as_stored
from sparta.captions.read import CaptionedPhoto
from sparta.errors import InputError
from sparta.features.store import FeatureStore
from sparta.progress import Progress, no_progress


def measure_pruning(
    stores: Sequence[FeatureStore],
    models: Sequence[str | Path],
    captions: Sequence[CaptionedPhoto],
    choices: Sequence[PruningChoice],
    bits: Sequence[int | None] = (8,),
    *,
    exact: bool = False,
    indexes: Path | None = None,
    all_images: bool = False,
    allow_missing: bool = False,
    batch_size: int = 32,
    device: str = "auto",
    progress: Progress = no_progress,
) -> PruningStudy:
    """Encode the photos once, then prune, quantise and search them in every way chosen.

    Offsets are estimated over all photos searched.

    Args:
        stores: of the same photos, the plain one first.
        models: folders or hub names of models with one vocabulary, whose scores are averaged.
        captions: the target photos.
        choices: ways to prune; if all use "trained" terms, the float model does too.
        bits: of an impact, 1 to 16, or None for no quantisation; each with each choice.
        exact: sum impacts in memory; otherwise each quantised choice is built as an index, whose
            recall for the captions is measured. Scores that are not quantised, and queries other
            than the captions, are always summed in memory.
        indexes: folder to build the indexes in, and keep them; with `exact` they are built for
            their size alone. None removes them.
        all_images: search all photos of the stores, those without captions too.
        allow_missing: leave out captioned photos that the stores lack.
        batch_size: images per pass of a model.
        device: "auto" takes a GPU if there is one.
        progress: of the stages "encode", in images, and "search", in queries.

    Raises:
        InputError: if photos have no features, models and stores do not go together, term
            frequencies are unknown, an index is in the way, or there are too many images to keep
            their scores in memory.
    """
    start = time.perf_counter()
    for width in bits:
        if width is not None:
            check_bits(width)
    check_stores(stores)
    captions = as_stored(captions, set(stores[0].ids), str(stores[0].folder))
    missing = missing_in(stores[:1], [photo.image_id for photo in captions], allow_missing)
    kept = [photo for photo in captions if photo.image_id not in missing]
    photos = sorted(kept, key=lambda photo: photo.image_id)
    # Untrained terms are most of the work: they are computed only if a choice uses them.
    terms: TermSet = "all" if any(choice.terms == "all" for choice in choices) else "trained"
    encoder, rows = _open(stores, models, photos, all_images, batch_size, device, terms)
    pairs = {(choice.asked, choice.asked_power) for choice in choices}
    asked = {pair: _asked(encoder, *pair) for pair in sorted(pairs)}
    images = TermScoreMatrix.of(encoder, rows, progress)
    encoded = time.perf_counter()
    ids = [images.store.ids[row] for row in rows]
    groups = QueryGroups.of(
        images.tokenizer, photos, ids, torch.from_numpy(trained_frequencies(encoder))
    )
    through = None if exact else photos
    measured = _measure(images, groups, choices, asked, bits, Indexes(indexes, through), progress)
    return PruningStudy(
        models=[scorer.fingerprint for scorer in encoder.scorers],
        images=len(rows),
        missing=len(captions) - len(photos),
        queries=groups.captions,
        other_queries={name: len(own) for name, own in groups.others.items()},
        vocabulary=len(encoder.tokenizer.vocabulary),
        encode_seconds=encoded - start,
        seconds=time.perf_counter() - start,
        rows=measured,
    )


def _open(
    stores: Sequence[FeatureStore],
    models: Sequence[str | Path],
    photos: Sequence[CaptionedPhoto],
    all_images: bool,
    batch_size: int,
    device: str,
    terms: TermSet,
) -> tuple[ImageEncoder, Sequence[int]]:
    """The models, and the rows in the stores of the photos to search, in the order of ids."""
    own = Images.of(stores[0], [photo.image_id for photo in photos]).rows
    rows = range(len(stores[0])) if all_images else own
    encoder = ImageEncoder.open(stores, models, batch_size, device, terms)
    check_memory(len(rows), len(encoder.tokenizer.vocabulary))
    return encoder, rows


def _asked(encoder: ImageEncoder, asked: str, power: float) -> AskedTerms:
    """As `asked_terms`, but models without term frequencies are refused if theirs are requested."""
    found = asked_terms(encoder, asked, power)
    if asked == "model" and found.source == "none":
        raise InputError(
            "--asked model: the models record no term frequencies: train them again, or give none "
            "or a file of queries"
        )
    return found


def _measure(
    images: TermScoreMatrix,
    groups: QueryGroups,
    choices: Sequence[PruningChoice],
    asked: Mapping[tuple[str, float], AskedTerms],
    bits: Sequence[int | None],
    indexes: Indexes,
    progress: Progress,
) -> list[PruningRow]:
    """The float model's row, and one for each choice and number of bits."""
    scores, queries = images.scored.scores, groups.queries
    every = queries.rank(torch.from_numpy(scores[:, queries.terms.numpy()]).T.contiguous())
    whole = every.until(groups.captions)
    positive = int(np.count_nonzero(scores)) / len(scores)
    rows = [
        PruningRow(None, None, whole.recall, 100.0, 100.0, positive, None, groups.recalls(every))
    ]
    kinds = {choice.offset for choice in choices}
    offsets = {kind: estimate_offsets(scores, kind) for kind in kinds}
    for choice in choices:
        weighed = asked[choice.asked, choice.asked_power]
        pruned = PrunedIndex(images, choice, offsets[choice.offset], weighed)
        weights, postings = pruned.weights(queries.terms)
        unrounded = queries.rank(weights).until(groups.captions)
        for width in bits:
            part = part_of(len(rows) - 1, len(choices) * len(bits), progress)
            every = queries.rank(pruned.quantised(weights, width) if width else weights)
            ranking = every.until(groups.captions)
            found, size = indexes.measure(pruned, width, part) if width else (None, None)
            overlaps = overlap(ranking, whole), overlap(ranking, unrounded)
            others = groups.recalls(every)
            found = found or ranking.recall
            rows.append(PruningRow(choice, width, found, *overlaps, postings, size, others))
            part("search", groups.captions, groups.captions)
    return rows
