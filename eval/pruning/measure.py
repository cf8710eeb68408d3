"""The effect of pruning and quantisation on recall and on the first ten hits, and its tables."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table
from torch import Tensor

from eval.plotting import DOTS_PER_INCH, legend, panels
from eval.pruning.index import IndexBytes, PrunedIndex, PruningChoice, columns_of, score_rows
from eval.recall.photos import missing_in
from eval.recall.scores import sparse_scores
from indexer.encoding.encoder import ImageEncoder
from indexer.encoding.features import check_stores
from indexer.encoding.impacts import ScoredImages, TermFrequencies, estimate_offsets, largest
from indexer.settings import TermSet
from sparta.captions.read import CaptionedPhoto
from sparta.captions.record import as_stored
from sparta.errors import InputError
from sparta.features.store import FeatureStore
from sparta.json_values import Json
from sparta.metrics import LARGEST_BLOCK, Recall, ranks, recall
from sparta.progress import Progress, no_progress
from sparta.tokenizer import TermTokenizer

NAMES = ("top-n", "offset", "terms", "frequencies", "bits")
FIGURES = (
    *("R@1", "R@5", "R@10", "median rank", "overlap with float", "overlap with float top-n"),
    *("terms per image", "Lucene bytes", "segment bytes"),
)
FIRST = 10
# Of a term in the training captions; a term in more of them is hardly rare.
BANDS = {"1-9": (1, 10), "10-99": (10, 100), "100-999": (100, 1000)}


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
            for size, at_10, top_n in points:
                one.annotate(top_n, (size, at_10), (3, 3), textcoords="offset points", fontsize=6)
        one.set(xscale="log", xlabel=f"bytes an image, {engine}", ylabel="recall at 10, %")
        legend(one)
    figure.savefig(out, dpi=DOTS_PER_INCH)


# ---- queries, and the ranking of images for them by weights in memory ---------------------------


class Ranking(NamedTuple):
    """Rankings of N images for Q queries."""

    ranks: Tensor  # [Q] int64, of each query's photo, 1 for the best
    first: Tensor  # [captions, N] bool, the first ten images, fewer where fewer are found

    def overlap(self, reference: Ranking) -> float:
        """Percent of the captions' first ten images that are those of a reference ranking.

        The mean is over the captions for which the reference finds anything.
        """
        wanted = reference.first.sum(dim=1)
        both = (self.first & reference.first).sum(dim=1)
        answered = wanted > 0
        return 100 * float((both[answered] / wanted[answered]).double().mean())


@dataclass(frozen=True)
class StudyQueries:
    """Captions and short queries of the same photos, each with its photo as the target."""

    terms: Tensor  # [U] int64, the queries' vocabulary ids, each once, rising
    # Each query's terms, as positions in `terms`; repeated terms are repeated. Captions come first.
    texts: list[list[int]]
    targets: Tensor  # [Q] int64, the photos' positions among the images searched
    captions: int  # how many of the queries are captions
    groups: dict[str, Tensor]  # name → [q] int64, the queries of every other group

    @classmethod
    def of(
        cls,
        tokenizer: TermTokenizer,
        photos: Sequence[CaptionedPhoto],
        image_ids: Sequence[str],
        frequencies: Tensor,
    ) -> StudyQueries:
        """Tokenise captions, make short queries, and group all by the rarity of their words.

        The photos are among the images searched. Of terms, frequencies [V] int64 are those in the
        training captions; without any there are no groups of rare words.
        """
        every = [*photos, *short_queries(photos)]
        ids = [tokenizer.query_ids(text) for photo in every for text in photo.captions]
        terms = sorted({term for text in ids for term in text})
        places = {term: place for place, term in enumerate(terms)}
        texts = [[places[term] for term in text] for text in ids]
        columns = {image_id: column for column, image_id in enumerate(image_ids)}
        targets = [columns[photo.image_id] for photo in every for _ in photo.captions]
        captions = sum(len(photo.captions) for photo in photos)
        is_short = torch.arange(len(texts)) >= captions
        groups = {"short": is_short.nonzero()[:, 0]}
        own = frequencies[torch.tensor(terms, dtype=torch.int64)]
        for name, kind in (("captions", ~is_short), ("short", is_short)):
            for band, (least, below) in BANDS.items():
                rare = ((own >= least) & (own < below)).tolist()
                with_rare = torch.tensor([any(rare[place] for place in text) for text in texts])
                if len(chosen := (kind & with_rare).nonzero()[:, 0]):
                    groups[f"{name} {band}"] = chosen
        return cls(torch.tensor(terms), texts, torch.tensor(targets), captions, groups)

    def rank(self, weights: Tensor) -> Ranking:
        """Sum each query's weights (equation 15) and order the images by them.

        As in an index, equal scores go by column, and an image without any of a query's terms
        is not found: it ranks behind all images, and behind the tenth in any case. Weights of the
        terms in every image are [U, N] float32, at least 0, columns in the order of image ids;
        whole numbers are summed exactly up to 2^24.
        """
        scores = sparse_scores(self.texts, weights)
        images = weights.shape[1]
        behind = max(images, FIRST) + 1
        rank, first = [], []
        for own in torch.arange(len(self.texts)).split(max(1, LARGEST_BLOCK // images)):
            block = scores.rows(slice(int(own[0]), int(own[-1]) + 1))
            targets = self.targets[own]
            missed = block.gather(1, targets[:, None])[:, 0] == 0
            found = ranks(block, targets[:, None].tolist(), ties="by_id")
            rank.append(found.masked_fill(missed, behind))
            # `largest` breaks ties as searchers do: by column.
            first.append(torch.from_numpy(largest(block.numpy(), FIRST)))
        return Ranking(torch.cat(rank), torch.cat(first)[: self.captions])

    def recalls(self, ranking: Ranking) -> tuple[Recall, dict[str, Recall]]:
        """Text→image recall of the captions, and of every other group."""
        groups = {name: recall(ranking.ranks[own]) for name, own in self.groups.items()}
        return recall(ranking.ranks[: self.captions]), groups


LONGEST = 3  # words of a query


def short_queries(photos: Sequence[CaptionedPhoto]) -> list[CaptionedPhoto]:
    """The same photos with short queries as captions.

    A photo's first caption gives one word, the second two, the third three, the fourth one, and so
    on: of its words that another caption of the photo contains too, those in the captions of the
    fewest photos, in the order of the caption. Stop words do not count. A caption that shares no
    word gives of all its words. Queries that an earlier caption of the photo gave are left out,
    and so are photos without any.
    """
    words = (set[str]().union(*map(content_words, photo.captions)) for photo in photos)
    spread = Counter(word for own in words for word in own)
    short = (replace(photo, captions=tuple(_queries(photo, spread))) for photo in photos)
    return [photo for photo in short if photo.captions]


def _queries(photo: CaptionedPhoto, spread: Counter[str]) -> Iterator[str]:
    captions = [content_words(caption) for caption in photo.captions]
    given = set()
    for number, words in enumerate(captions):
        others = set[str]().union(*captions[:number], *captions[number + 1 :])
        shared = [word for word in words if word in others] or words
        rarest = sorted(shared, key=lambda word: spread[word])[: 1 + number % LONGEST]
        query = " ".join(word for word in words if word in rarest)
        if query and query not in given:
            given.add(query)
            yield query


_FUNCTION_WORDS = """
a about above across after against all along also among an and another any are around as at away
back be been before behind being below beside between both but by can do does doing down each for
from front has have having he her hers herself him himself his if in inside into is it its itself
just like many more most near next no not of off on onto or other others out outside over past
several she so some something than that the their them themselves then there these they this those
through to together toward towards under up upon very was were what when where which while who whose
with within without
"""
STOP_WORDS = frozenset(_FUNCTION_WORDS.split())


def content_words(caption: str) -> list[str]:
    """A caption's words of two letters and more, each once, without stop words."""
    return [
        word
        for word in dict.fromkeys(re.findall(r"[^\W\d_]+", caption.lower()))
        if len(word) > 1 and word not in STOP_WORDS
    ]


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
    found, others = queries.recalls(whole)
    rows = [PruningRow(None, None, found, 100.0, 100.0, positive, None, others)]
    offsets = {kind: estimate_offsets(scores, kind) for kind in {one.offset for one in choices}}
    for choice in choices:
        terms = weighed[choice.frequencies, choice.frequency_power]
        pruned = PrunedIndex(encoder, images, choice, offsets[choice.offset], terms)
        weights, postings = pruned.weights(queries.terms)
        unrounded = queries.rank(weights)
        for width in bits:
            ranking = queries.rank(pruned.quantised(weights, width)) if width else unrounded
            size = pruned.build(width) if width and built else None
            found, others = queries.recalls(ranking)
            overlaps = ranking.overlap(whole), ranking.overlap(unrounded)
            rows.append(PruningRow(choice, width, found, *overlaps, postings, size, others))
            progress("choose", len(rows) - 1, len(choices) * len(bits))
    return rows
