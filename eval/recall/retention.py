"""How much of a dual encoder's ranking its term vectors keep, and what a query and a photo cost."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np
import torch
from rich.table import Table
from torch import Tensor

from indexer.index import build
from indexer.state import bytes_below
from sparta.json_values import Json
from sparta.metrics import ranks, recall
from sparta.progress import Progress

if TYPE_CHECKING:
    from sparta.adapt.adapt import Adapted

CUTS = (1, 5, 10)
TIMED = 100  # queries
LOW = 80.0  # percent kept, below which the table says what would help
READ = 256  # photos at once


@dataclass(frozen=True)
class Retention:
    """Held-out sentences, or captions, searched both ways among N photos.

    Attributes:
        photos: N.
        sentences: how many were searched.
        first_hit: percent of them whose first hit of the dense model is among our first 1, 5, 10.
        overlap: percent of the dense model's ten best that are among ours.
        captions: how many captions of held-out photos were searched; 0 for none.
        dense_recall: R@1, R@5, R@10 of the dense model, if there were captions.
        recall: ours.
        dense_bytes: bytes an image of vectors in half precision.
        bytes: of our segments, which are smaller in a large index.
        dense_ms: median of a query: text tower and all products.
        ms: median of ours.
    """

    photos: int
    sentences: int
    first_hit: tuple[float, ...]
    overlap: float
    captions: int
    dense_recall: tuple[float, ...]
    recall: tuple[float, ...]
    dense_bytes: int
    bytes: float
    dense_ms: float
    ms: float

    def record(self) -> Json:
        """The figures for programs."""
        return asdict(self)

    def table(self) -> Table:
        """The figures for a terminal, and for the model's card."""
        table = Table(title=f"{self.sentences:,} held-out sentences among {self.photos:,} photos")
        table.add_column("")
        for name in ("dense model", "index", "kept"):
            table.add_column(name, justify="right")
        first = " / ".join(f"{one:.0f} %" for one in self.first_hit)
        table.add_row("its first hit among our first 1, 5, 10", "", "", first)
        table.add_row("its ten best among ours", "", "", f"{self.overlap:.0f} %")
        if self.captions:
            for cut, theirs, own in zip(CUTS, self.dense_recall, self.recall, strict=True):
                share = f"{100 * own / theirs:.0f} %" if theirs else ""
                table.add_row(
                    f"R@{cut}, {self.captions:,} captions", f"{theirs:.1f}", f"{own:.1f}", share
                )
        table.add_row("bytes an image", f"{self.dense_bytes:,}", f"{self.bytes:,.0f}", "")
        table.add_row("ms a query", f"{self.dense_ms:.2f}", f"{self.ms:.3f}", "")
        return table

    def advice(self) -> str | None:
        """What would help, if less than 80 % of the dense model's ranking is kept."""
        kept = self.first_hit[-1]
        if self.captions and self.dense_recall[0]:
            kept = 100 * self.recall[0] / self.dense_recall[0]
        if kept >= LOW:
            return None
        return (
            f"Only {kept:.0f} % is kept. What helps, the first most: --captions of some of the "
            "photos, --sentences like the queries that you expect, more of them, --photos like "
            "those to be searched"
        )


def measure_retention(adapted: Adapted, progress: Progress) -> Retention | None:
    """Search with what was held out in an index of the photos, and with the dense model.

    None where there are no photos. Progress of the stage "search", in queries.
    """
    store = adapted.store
    if store is None:
        return None
    ids = sorted(store.ids)
    photos = _vectors(adapted, ids)
    place = {one: number for number, one in enumerate(ids)}
    typed = [(text, place[one]) for one, own in adapted.captions.items() for text in own]
    texts = [*adapted.sentences, *(text for text, _ in typed)]
    count = len(adapted.sentences)
    dense = adapted.embed(texts).float() @ photos.T
    with TemporaryDirectory(prefix="visualsparta-") as folder:
        index = build(store.folder, Path(folder) / "index", model=adapted.folder)
        size = bytes_below(Path(folder) / "index" / "segments") / len(ids)
        found: list[list[int]] = []
        for done, text in enumerate(texts, 1):
            found.append([place[hit.image_id] for hit in index.search(text, k=CUTS[-1]).hits])
            progress("search", done, len(texts))
        ms = _median(lambda text: index.search(text, k=CUTS[-1]), texts)
    best = dense[:count].topk(min(CUTS[-1], len(ids)), dim=1).indices.tolist()
    pairs = list(zip(best, found, strict=False))
    dense_recall: tuple[float, ...] = ()
    own_recall: tuple[float, ...] = ()
    if typed:
        targets = [[target] for _, target in typed]
        dense_recall = tuple(recall(ranks(dense[count:], targets, ties="by_id"))[:3])
        own_recall = tuple(
            _percent(
                target in hits[:cut] for (_, target), hits in zip(typed, found[count:], strict=True)
            )
            for cut in CUTS
        )
    return Retention(
        photos=len(ids),
        sentences=count,
        first_hit=tuple(_percent(top[0] in hits[:cut] for top, hits in pairs) for cut in CUTS),
        overlap=float(np.mean([100 * len({*top} & {*hits}) / len(top) for top, hits in pairs])),
        captions=len(typed),
        dense_recall=dense_recall,
        recall=own_recall,
        dense_bytes=2 * photos.shape[1],
        bytes=size,
        dense_ms=_median(lambda text: (adapted.embed([text]).float() @ photos.T).topk(1), texts),
        ms=ms,
    )


def _vectors(adapted: Adapted, ids: Sequence[str]) -> Tensor:
    store = adapted.store
    assert store is not None
    parts = (
        [store[store.index(one)] for one in ids[start : start + READ]]
        for start in range(0, len(ids), READ)
    )
    return torch.cat([adapted.encoder.photo_vectors(part) for part in parts])


def _percent(found: Iterable[bool]) -> float:
    return float(100 * np.mean(list(found)))


def _median(search: Callable[[str], object], texts: Sequence[str]) -> float:
    """Milliseconds of one search, of `TIMED` with warm caches."""
    spent = []
    for text in islice(texts, TIMED):
        start = time.perf_counter()
        search(text)
        spent.append(1000 * (time.perf_counter() - start))
    return float(np.median(spent))
