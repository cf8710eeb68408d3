"""The effect of pruning and quantisation on recall and on the first ten hits."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch

from eval.pruning.index import PrunedIndex, PruningChoice, TermScoreMatrix
from eval.pruning.queries import QueryGroups, overlap
from eval.pruning.results import PruningRow, PruningStudy
from eval.recall.photos import missing_in
from indexer.encoding.asked import AskedTerms, asked_terms, trained_frequencies
from indexer.encoding.stores import check_stores
from indexer.encoding.term_scores import ImageEncoder
from indexer.pruning import estimate_offsets
from indexer.settings import TermSet
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
        exact: build no indexes; otherwise each quantised choice is built as one, for its size.
            Impacts are summed in memory in any case, as an index sums them.
        indexes: folder to keep the indexes in, which are then built in spite of `exact`.
        all_images: search all photos of the stores, those without captions too.
        allow_missing: leave out captioned photos that the stores lack.
        batch_size: images per pass of a model.
        device: "auto" takes a GPU if there is one.
        progress: of the stages "encode", in images, and "choose", in choices.

    Raises:
        InputError: if photos have no features, models and stores do not go together, term
            frequencies are unknown, an index is in the way, or there are too many images to keep
            their scores in memory.
    """
    start = time.perf_counter()
    check_stores(stores)
    missing = missing_in(stores[:1], [photo.image_id for photo in captions], allow_missing)
    kept = [photo for photo in captions if photo.image_id not in missing]
    photos = sorted(kept, key=lambda photo: photo.image_id)
    # Untrained terms are most of the work: they are computed only if a choice uses them.
    terms: TermSet = "all" if any(choice.terms == "all" for choice in choices) else "trained"
    encoder = ImageEncoder.open(stores, models, batch_size, device, terms)
    pairs = {(choice.asked, choice.asked_power) for choice in choices}
    asked = {pair: _asked(encoder, *pair) for pair in sorted(pairs)}
    own = [stores[0].index(photo.image_id) for photo in photos]
    images = TermScoreMatrix.of(encoder, range(len(stores[0])) if all_images else own, progress)
    encoded = time.perf_counter()
    ids = [images.store.ids[row] for row in images.rows]
    frequencies = torch.from_numpy(trained_frequencies(encoder))
    groups = QueryGroups.of(images.tokenizer, photos, ids, frequencies)
    built = indexes is not None or not exact
    rows = _measure(images, groups, choices, asked, bits, built, indexes, progress)
    return PruningStudy(
        models=[scorer.fingerprint for scorer in encoder.scorers],
        images=len(ids),
        missing=len(captions) - len(photos),
        queries=groups.captions,
        other_queries={name: len(own) for name, own in groups.others.items()},
        vocabulary=len(encoder.tokenizer.vocabulary),
        encode_seconds=encoded - start,
        seconds=time.perf_counter() - start,
        rows=rows,
    )


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
    built: bool,
    indexes: Path | None,
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
            every = queries.rank(pruned.quantised(weights, width) if width else weights)
            ranking = every.until(groups.captions)
            size = pruned.build(width, indexes) if width and built else None
            overlaps = overlap(ranking, whole), overlap(ranking, unrounded)
            others = groups.recalls(every)
            rows.append(
                PruningRow(choice, width, ranking.recall, *overlaps, postings, size, others)
            )
            progress("choose", len(rows) - 1, len(choices) * len(bits))
    return rows
