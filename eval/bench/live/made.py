"""The index that is measured, and the images that are added to it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from eval.bench.live.plan import LivePlan
from eval.bench.query_latency.collections.enlarge import enlarge
from eval.bench.query_latency.collections.impact_source import ImpactSource
from eval.bench.serving.enlarged_index import METADATA, enlarge_index
from indexer.postings import ImagePostings, Postings
from sparta.errors import InputError
from sparta.progress import Progress


def make_index(source: Path, work: Path, plan: LivePlan, progress: Progress) -> Path:
    """An index to write to: the one that is kept in a folder, made if there is none, linked.

    Args:
        source: index whose images it is made of.
        work: the folder.
        plan: of the measurement.
        progress: stage "write", in images.

    Raises:
        InputError: if the folder has something else of that name.
    """
    terms = "all" if plan.top_n is None else plan.top_n
    built = work / f"{source.name}-{plan.kind}-{plan.images}-{terms}-{plan.seed}"
    if not built.exists():
        enlarge_index(
            source, built, plan.images, progress, plan.seed, kind=plan.kind, top_n=plan.top_n
        )
    live = work / f"{built.name}.written"
    if live.exists():
        raise InputError(f"{live} is there: another measurement runs, or remove it")
    shutil.copytree(built, live, copy_function=_link)
    return live


def _link(source: str, target: str) -> None:
    """Files of an index are replaced and removed, never changed, so that links are copies."""
    os.link(source, target)


def new_images(source: ImpactSource, plan: LivePlan) -> Iterator[ImagePostings]:
    """Images that the index lacks, as they come from encoding, without grounding."""
    number = 0
    for rows in enlarge(source, 10**9, plan.top_n, plan.kind, plan.seed + 1):
        ids = [f"new/{number + i:09d}.jpg" for i in range(len(rows))]
        number += len(rows)
        yield from Postings.without_grounding(
            ids, [METADATA] * len(rows), rows.starts, rows.terms, rows.impacts
        )
