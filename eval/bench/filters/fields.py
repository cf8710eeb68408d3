"""Metadata as photo libraries have them, drawn at random, and the first use of filters on them."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from eval.bench.filters.plan import FilterPlan
from indexer.fields.part import FieldPart
from indexer.fields.writer import FieldWriter
from indexer.filters.field_index import FieldIndex
from indexer.filters.text import parse_filter
from sparta.progress import Progress

CHUNK = 10_000  # images
CAMERAS = [("Canon", f"Canon EOS {i}D") for i in range(40)] + [
    ("NIKON", f"Z {i}") for i in range(20)
]
FIRST_DAY, DAYS = np.datetime64("2014-01-01"), 4000
# One of each kind: numbers, dates, words, places, lists, and texts of which no two are equal. The
# second of a pair is used after the first, which opens what both read.
FILTERS = (
    ("iso:200", "iso:400"),
    ("taken:2024-06..2024-08", "taken:2023-06..2023-08"),
    ("camera:canon", "camera:nikon"),
    ("location:48.2,2.3~50km", "location:40.7,-74.0~50km"),
    ("tags:b", "tags:c"),
    ("folder:2020", "folder:2021"),
    ("path:000002000", "path:000003000"),
    ("taken:2024 camera:canon -folder:2020", "taken:2023 camera:nikon -folder:2021"),
)


def make_fields(folder: Path, plan: FilterPlan, progress: Progress) -> None:
    """Write the fields of a plan's images, unless they are there.

    Args:
        folder: of the fields.
        plan: of the measurement.
        progress: stage "describe", in images.
    """
    if folder.exists():
        return
    work = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    writer, done = FieldWriter(), 0
    for ids, metadata in _drawn(plan):
        writer.add(ids, metadata)
        done += len(ids)
        progress("describe", done, plan.images)
    writer.write(work)
    work.rename(folder)


def _drawn(plan: FilterPlan) -> Iterator[tuple[list[str], list[dict[str, Any]]]]:
    draw = np.random.default_rng(plan.seed)
    for first in range(0, plan.images, CHUNK):
        n = min(CHUNK, plan.images - first)
        day, second = draw.integers(0, DAYS, n), draw.integers(0, 86_400, n)
        taken = ((FIRST_DAY + day).astype("datetime64[s]") + second).astype(str).tolist()
        camera, iso = draw.integers(0, len(CAMERAS), n).tolist(), draw.integers(0, 8, n).tolist()
        north, east = draw.uniform(-60, 70, n).round(6), draw.uniform(-180, 180, n).round(6)
        ids = [f"{taken[i][:4]}/{taken[i][5:7]}/{first + i:09d}.jpg" for i in range(n)]
        metadata = [
            {
                "make": CAMERAS[camera[i]][0],
                "model": CAMERAS[camera[i]][1],
                "taken": taken[i],
                "iso": 100 << iso[i],
                "latitude": float(north[i]),
                "longitude": float(east[i]),
                "tags": ["a", "b", "c"][: iso[i] % 4],
            }
            for i in range(n)
        ]
        yield ids, metadata


def first_uses(folder: Path) -> Iterator[tuple[str, int, float, float]]:
    """Each filter, the images it lets through, and the seconds of its first use and of the next.

    The first one opens the fields that it reads, as after the start of a server; the other is the
    first use of another filter of the same kind.
    """
    for first, second in FILTERS:
        fields = FieldIndex([FieldPart.open(folder)])
        start = time.perf_counter()
        found = int(np.count_nonzero(fields.allowed(parse_filter(first))))
        opened = time.perf_counter()
        fields.allowed(parse_filter(second))
        yield first, found, opened - start, time.perf_counter() - opened
