"""Time of a search against the number of images (GPO, figure 3; VisualSparta, table 2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from eval.figures.gallery import Gallery
from eval.plotting import legend, panels
from indexer.dense.text_encoder import ModelText
from indexer.query.query import Query
from indexer.search.api import Searcher
from indexer.search.dense import DenseSearcher
from indexer.search.lucene import LuceneSearcher
from sparta.errors import InputError
from sparta.progress import Progress, no_progress

SPARTA = "VisualSparta"


@dataclass(frozen=True)
class Times:
    """Medians over the same queries, in milliseconds.

    Attributes:
        images: searched among.
        searcher: "VisualSparta", or the dense model's name.
        encode: embedding the text; 0 for the inverted index, which does nothing of the kind.
        search: finding the images.
        total: everything.
    """

    images: int
    searcher: str
    encode: float
    search: float
    total: float


def measure_times(
    gallery: Gallery,
    queries: Sequence[str],
    sizes: Sequence[int],
    k: int,
    progress: Progress = no_progress,
) -> list[Times]:
    """Search galleries of growing size with the inverted index and with the vectors.

    The first half of the queries warms up, the other half is timed.

    Args:
        gallery: the images.
        queries: at least two.
        sizes: numbers of images.
        k: hits of an answer.
        progress: of the stage "time", in runs.

    Raises:
        InputError: if there are fewer than two queries.
    """
    if len(queries) < 2:
        raise InputError(f"{len(queries)} queries: give at least two, half of them to warm up")
    found: list[Times] = []
    for size in sizes:
        with TemporaryDirectory() as folder:
            gallery.write(Path(folder) / "index", size)
            sparse = LuceneSearcher(Path(folder) / "index")
            sparse.warm_up()
            text = ModelText(gallery.dense.model)
            dense = DenseSearcher(sparse.index, gallery.collect(size), text)
            for name, searcher in ((SPARTA, sparse), (gallery.dense.model.config.name, dense)):
                found.append(time_searches(name, searcher, queries, k))
                progress("time", len(found), 2 * len(sizes))
            sparse.close()
    return found


def time_searches(name: str, searcher: Searcher, queries: Sequence[str], k: int) -> Times:
    """Median times of a searcher for the second half of the queries, asked after the first."""
    timings = [searcher.search(Query.plain(query), k).timings for query in queries]
    timings = timings[len(queries) // 2 :]
    return Times(
        images=len(searcher),
        searcher=name,
        encode=median(timing.encode_ms for timing in timings),
        search=median(timing.search_ms for timing in timings),
        total=median(timing.total_ms for timing in timings),
    )


def draw(times: Sequence[Times]) -> Figure:
    """Both searchers over the number of images, logarithmic; dashed, without encoding the text."""
    figure, (axes,) = panels(1, width=5)
    for name in dict.fromkeys(one.searcher for one in times):
        own = [one for one in times if one.searcher == name]
        images = [one.images for one in own]
        (line,) = axes.plot(images, [one.total for one in own], marker="o", label=name)
        if any(one.encode for one in own):
            label = f"{name}, search alone"
            searches = [one.search for one in own]
            colour = line.get_color()
            axes.plot(images, searches, marker=".", linestyle="--", color=colour, label=label)
    axes.set_xscale("log")
    axes.set_yscale("log")
    sizes = sorted({one.images for one in times})
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("images")
    axes.set_ylabel("median time of a query, ms")
    legend(axes)
    return figure
