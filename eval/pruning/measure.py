"""The effect of pruning and quantisation on recall and on the first ten hits, and its tables."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import torch
from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table

from eval.plotting import DOTS_PER_INCH, legend, panels
from eval.pruning.index import IndexBytes, PrunedIndex, PruningChoice, columns_of, score_rows
from eval.pruning.queries import StudyQueries
from eval.recall.photos import missing_in
from indexer.encoding.encoder import ImageEncoder
from indexer.encoding.features import check_stores
from indexer.encoding.impacts import ScoredImages, TermFrequencies, estimate_offsets
from indexer.settings import TermSet
from sparta.captions.read import CaptionedPhoto
from sparta.captions.record import as_stored
from sparta.errors import InputError
from sparta.features.store import FeatureStore
from sparta.json_values import Json
from sparta.metrics import Recall
from sparta.progress import Progress, no_progress

NAMES = ("top-n", "offset", "terms", "frequencies", "bits")
FIGURES = (
    *("R@1", "R@5", "R@10", "median rank", "overlap with float", "overlap with float top-n"),
    *("terms per image", "Lucene bytes", "segment bytes"),
)


@dataclass(frozen=True)
class PruningRow:
    """The result of one choice."""

    choice: PruningChoice | None  # None for the float model: not pruned, not quantised
    bits: int | None  # of an impact, None for scores that are not quantised
    recall: Recall  # text→image
    overlap: float  # percent of the float model's first ten images that are in this row's
    overlap_same_top_n: float  # the same for the choice's ranking before quantisation
    postings_per_image: float  # terms with a score, on average
    size: IndexBytes | None  # of the index, None where none was built
    others: dict[str, Recall]  # recall of other groups of queries

    def record(self) -> Json:
        """The row as JSON values; the float model's has no settings."""
        choice = {one.name: getattr(self.choice, one.name, None) for one in fields(PruningChoice)}
        return {
            **choice,
            "top_n": choice["top_n"] or "all",
            "bits": self.bits or "float",
            "r1": self.recall.at_1,
            "r5": self.recall.at_5,
            "r10": self.recall.at_10,
            "median_rank": self.recall.median_rank,
            "overlap": self.overlap,
            "overlap_same_top_n": self.overlap_same_top_n,
            "postings_per_image": self.postings_per_image,
            "lucene_bytes_per_image": self.size and self.size.lucene,
            "segment_bytes_per_image": self.size and self.size.segments,
            "others": {name: list(found[:3]) for name, found in self.others.items()},
        }

    def names(self) -> list[str]:
        """What the row is of, in the order of `NAMES`."""
        if not (choice := self.choice):
            return ["float model", "", "", "", ""]
        power = f"{Path(choice.frequencies).name} {choice.frequency_power:g}"
        asked = "none" if choice.frequencies == "none" else power
        bits = str(self.bits or "float")
        return [str(choice.top_n or "all"), choice.offset, choice.terms, asked, bits]

    def cells(self) -> list[str]:
        """The row as text, in the order of `NAMES` and `FIGURES`."""
        return [
            *self.names(),
            *(f"{share:.1f}" for share in self.recall[:3]),
            f"{self.recall.median_rank:g}",
            f"{self.overlap:.1f}",
            f"{self.overlap_same_top_n:.1f}",
            f"{self.postings_per_image:,.0f}",
            *(["", ""] if self.size is None else (f"{size:,.0f}" for size in self.size)),
        ]


@dataclass(frozen=True)
class PruningStudy:
    """The rows, the float model's first, and the models they were measured on."""

    models: list[str]  # fingerprints
    images: int  # photos searched
    missing: int  # captioned photos that were left out
    queries: int  # captions
    other_queries: dict[str, int]  # name of every other group → its queries
    vocabulary: int  # terms of the models, special ones included
    encode_seconds: float  # for scoring all images with all models and stores
    seconds: float  # in all
    rows: list[PruningRow]  # the float model's first

    def record(self) -> Json:
        """The figures as JSON values."""
        return vars(self) | {"rows": [row.record() for row in self.rows]}

    def table(self) -> Group:
        """The rows, and a table of R@1 / R@5 / R@10 of the other groups of queries."""
        missing = f"; captioned photos left out: {self.missing:,}" if self.missing else ""
        about = f"{self.images:,} images, {self.queries:,} captions{missing}; {self.seconds:,.0f} s"
        groups = [f"{name} ({count:,})" for name, count in self.other_queries.items()]
        others = (
            [*row.names(), *(str(found).split(",")[0] for found in row.others.values())]
            for row in self.rows
        )
        rows = _table(FIGURES, (row.cells() for row in self.rows))
        return Group(about, "", rows, "", _table(groups, others))


def _table(figures: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    table = Table(*NAMES, box=SIMPLE_HEAD, padding=0, show_edge=False)  # fits 80 columns
    for figure in figures:
        table.add_column(figure, justify="right")
    for row in rows:
        table.add_row(*row)
    return table


def save_frontier(rows: Sequence[PruningRow], out: Path) -> None:
    """Draw a line over top-n for every other choice whose indexes were built; none, no picture."""
    lines: dict[str, list[PruningRow]] = {}
    for row in rows:
        if row.size is not None:
            _, offset, terms, asked, bits = row.names()
            lines.setdefault(f"{offset}, {terms}, frequencies {asked}, {bits} bits", []).append(row)
    if not lines:
        return
    figure, axes = panels(len(IndexBytes._fields), width=5.5, height=4.5)
    for one, engine in zip(axes, IndexBytes._fields, strict=True):
        for name, own in lines.items():
            points = sorted(
                (getattr(row.size, engine), row.recall.at_10, row.names()[0]) for row in own
            )
            one.plot(*zip(*(point[:2] for point in points), strict=True), "o-", ms=3, label=name)
            for size, recall, top_n in points:
                place = (size, recall)
                one.annotate(top_n, place, (3, 3), textcoords="offset points", fontsize=6)
        one.set(xscale="log", xlabel=f"bytes an image, {engine}", ylabel="recall at 10, %")
        legend(one)
    figure.savefig(out, dpi=DOTS_PER_INCH)


# ---- measuring -----------------------------------------------------------------------------------


def measure_pruning(
    stores: Sequence[FeatureStore],
    models: Sequence[str | Path],
    captions: Sequence[CaptionedPhoto],
    choices: Sequence[PruningChoice],
    bits: Sequence[int | None] = (8,),
    *,
    exact: bool = False,
    allow_missing: bool = False,
    batch_size: int = 32,
    device: str = "auto",
    progress: Progress = no_progress,
) -> PruningStudy:
    """Encode the photos once, then prune, quantise and search them in every way chosen.

    Offsets are estimated over all photos searched. Stores are of the same photos, the plain one
    first; models have one vocabulary, and their scores are averaged. If all choices use "trained"
    terms, the float model does too. Each width of `bits`, None for no quantisation, is measured
    with each choice, and each quantised choice built as an index, for its size, but not with
    `exact`. Impacts are summed in memory in any case, as an index sums them. Reports progress of
    the stages "encode", in images, and "choose", in choices.

    Raises:
        InputError: if photos have no features, models and stores do not go together, term
            frequencies are unknown, or there are too many images to keep their scores in memory.
    """
    start = time.perf_counter()
    check_stores(stores)
    captions = as_stored(captions, set(stores[0].ids), str(stores[0].folder))
    missing = missing_in(stores[:1], [photo.image_id for photo in captions], allow_missing)
    kept = [photo for photo in captions if photo.image_id not in missing]
    photos = sorted(kept, key=lambda photo: photo.image_id)
    # Untrained terms are most of the work: they are computed only if a choice uses them.
    terms: TermSet = "all" if any(choice.terms == "all" for choice in choices) else "trained"
    encoder = ImageEncoder.open(stores, models, batch_size, device, terms)
    pairs = {(choice.frequencies, choice.frequency_power) for choice in choices}
    weighed = {pair: _term_frequencies(encoder, *pair) for pair in sorted(pairs)}
    own = [stores[0].index(photo.image_id) for photo in photos]
    images = score_rows(encoder, own, progress)
    encoded = time.perf_counter()
    frequencies = torch.from_numpy(encoder.frequencies)
    queries = StudyQueries.of(encoder.tokenizer, photos, images.ids, frequencies)
    rows = _measure(encoder, images, queries, choices, weighed, bits, not exact, progress)
    return PruningStudy(
        models=encoder.models,
        images=len(images.ids),
        missing=len(captions) - len(photos),
        queries=queries.captions,
        other_queries={name: len(own) for name, own in queries.groups.items()},
        vocabulary=len(encoder.tokenizer.vocabulary),
        encode_seconds=encoded - start,
        seconds=time.perf_counter() - start,
        rows=rows,
    )


def _term_frequencies(encoder: ImageEncoder, asked: str, power: float) -> TermFrequencies:
    """Weights of terms; models without term frequencies are refused if theirs are requested."""
    found = TermFrequencies.of(asked, power, encoder.frequencies, encoder.tokenizer)
    if asked == "model" and found.source == "none":
        raise InputError(
            "--frequencies model: the models record no term frequencies: train them again, or give "
            "none or a file of queries"
        )
    return found


def _measure(
    encoder: ImageEncoder,
    images: ScoredImages,
    queries: StudyQueries,
    choices: Sequence[PruningChoice],
    weighed: Mapping[tuple[str, float], TermFrequencies],
    bits: Sequence[int | None],
    built: bool,
    progress: Progress,
) -> list[PruningRow]:
    """The float model's row, and one for each choice and number of bits."""
    scores = images.scores
    own = columns_of(scores, encoder.terms, queries.terms.numpy())
    whole = queries.rank(torch.from_numpy(own).T.contiguous())
    positive = int(np.count_nonzero(scores)) / len(scores)
    others = queries.recalls(whole)
    rows = [PruningRow(None, None, queries.recall(whole), 100.0, 100.0, positive, None, others)]
    kinds = {choice.offset for choice in choices}
    offsets = {kind: estimate_offsets(scores, kind) for kind in kinds}
    for choice in choices:
        terms = weighed[choice.frequencies, choice.frequency_power]
        pruned = PrunedIndex(encoder, images, choice, offsets[choice.offset], terms)
        weights, postings = pruned.weights(queries.terms)
        unrounded = queries.rank(weights)
        for width in bits:
            ranking = queries.rank(pruned.quantised(weights, width)) if width else unrounded
            size = pruned.build(width) if width and built else None
            found, others = queries.recall(ranking), queries.recalls(ranking)
            overlaps = ranking.overlap(whole), ranking.overlap(unrounded)
            rows.append(PruningRow(choice, width, found, *overlaps, postings, size, others))
            progress("choose", len(rows) - 1, len(choices) * len(bits))
    return rows
