"""The whole study of exclusion on the photos of a split."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from eval.exclusion.measure import SHARES, documents_of, mean_f1, read_presences
from eval.exclusion.result import ExclusionResult
from eval.exclusion.searches import search_pairs
from eval.exclusion.truth import pairs_of
from indexer.search.lucene import LuceneSearcher
from indexer.search.terms.presence import PRESENT
from sparta.captions.read import CaptionedPhoto
from sparta.progress import Progress, no_progress


def measure_exclusion(
    searcher: LuceneSearcher,
    photos: Sequence[CaptionedPhoto],
    progress: Progress = no_progress,
) -> ExclusionResult:
    """Exclude every word of photos' captions, and search for one word without another.

    Args:
        searcher: of an index with the photos, and perhaps others, which are left out.
        photos: with captions.
        progress: of the stages "words" and "search".

    Raises:
        InputError: if the index lacks a photo.
    """
    allowed = np.zeros(searcher.index.documents, np.bool_)
    allowed[documents_of(searcher, photos)] = True
    found = read_presences(searcher, photos, progress)
    pairs = pairs_of(found.truth)
    return ExclusionResult(
        photos=len(photos),
        share=PRESENT,
        bands=found.rows(PRESENT),
        curve={share: mean_f1(found.rows(share)) for share in SHARES},
        pairs=len(pairs),
        searches=search_pairs(searcher, photos, found.truth, pairs, allowed, progress),
    )
