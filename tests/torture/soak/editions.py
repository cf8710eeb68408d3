"""The editions of an index that take turns under a server, and the right answers of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from eval.bench.query_latency.collections.corpus import Corpus
from eval.bench.query_latency.collections.enlarge import enlarge
from eval.bench.query_latency.collections.impact_source import ImpactSource
from eval.bench.query_latency.collections.queries import TermQuery
from eval.bench.query_latency.ground_truth import GroundTruth
from eval.bench.serving.enlarged_index import enlarge_index, image_id
from sparta.atomic import replace_folder, work_folder
from sparta.lock import writing

EDITIONS = 2
AT_ONCE = 100  # queries whose scores of all images are in memory

Ranking = tuple[tuple[str, float], ...]  # ids and scores, the best first


@dataclass(frozen=True)
class Editions:
    """The right answers of every edition.

    Attributes:
        texts: of the queries.
        right: [EDITIONS] query → its hits.
    """

    texts: list[str]
    right: list[dict[str, Ranking]]

    @classmethod
    def of(
        cls, source: ImpactSource, queries: Sequence[TermQuery], images: int, k: int
    ) -> Editions:
        """Score every image of every edition by a plain matrix product.

        Args:
            source: of the images.
            queries: to answer.
            images: of an edition.
            k: hits of an answer.
        """
        right = [_answers(source, queries, images, k, seed) for seed in range(EDITIONS)]
        return cls([query.text for query in queries], right)

    def fitting(self, query: str, hits: Ranking) -> frozenset[int]:
        """The editions of which hits are the right answer, order and scores included."""
        return frozenset(
            number for number, answers in enumerate(self.right) if answers[query] == hits
        )


def _answers(
    source: ImpactSource, queries: Sequence[TermQuery], images: int, k: int, seed: int
) -> dict[str, Ranking]:
    found: dict[str, Ranking] = {}
    with TemporaryDirectory() as folder:
        rows = enlarge(source, images, None, "copies", seed)
        corpus = Corpus.write(Path(folder), source.vocabulary, source.bits, rows)
        for start in range(0, len(queries), AT_ONCE):
            some = queries[start : start + AT_ONCE]
            truth = GroundTruth.of_impacts(corpus, some)
            for row, query in enumerate(some):
                best = truth.top(row, k)
                pairs = zip(best.documents.tolist(), best.scores.tolist(), strict=True)
                found[query.text] = tuple((image_id(n), float(score)) for n, score in pairs)
    return found


def rebuild(source: Path, out: Path, images: int, edition: int) -> None:
    """Make an edition and put it in the place of the index that is there, if any.

    Args:
        source: index whose images the edition is made of.
        out: the index that is replaced.
        images: of the edition.
        edition: its number.
    """
    with writing(out), work_folder(out) as work:
        new = work / "index"
        enlarge_index(source, new, images, seed=edition)
        replace_folder(new, out, work)
