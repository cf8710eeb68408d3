"""The `sparta bench` commands."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eval.commands.options import (
    FEATURES,
    OptionalCaptions,
    OptionalQueries,
    Split,
    parse_numbers,
)
from sparta.commands.options import IndexFolder, advanced
from sparta.extras import check_installed

if TYPE_CHECKING:
    from eval.bench.speed import Choices
    from sparta.json_values import Json

# ---- speed -------------------------------------------------------------------------------------

SIZES, TOP_NS, SECONDS = "1000,5000,113287,1000000", "1000,50,100,300,500,2000,all", 5.0
QUICK_SIZES, QUICK_TOP_NS, QUICK_SECONDS = "1000,10000", "1000,100,all", 1.0
USUAL_ENGINES = "columns,lucene,bm25s,numpy"
WIDE = 200  # characters of a table at most; a narrower terminal breaks its lines

SpeedOut = Annotated[Path, typer.Option(help="Folder for results, report and figures.")]
Quick = Annotated[
    bool,
    typer.Option("--quick", help=f"A minute: {QUICK_SIZES} images, {QUICK_SECONDS:g} s a cell."),
]
Sizes = Annotated[
    str | None, typer.Option("--images", help=f"Numbers of images (default: {SIZES}).")
]
TopNs = Annotated[
    str | None,
    typer.Option(
        help="Terms an image keeps: the first at every size, the others at one size "
        f"(default: {TOP_NS})."
    ),
]
Features = Annotated[list[Path] | None, FEATURES]
SpeedModels = Annotated[
    list[str] | None, advanced("--model", help="Models of the index, unless the package's.")
]
Corpus = Annotated[
    str,
    advanced(
        help="synthetic: as alike as photos; near-duplicates: photos perturbed, as in the paper; "
        "blends: each of two photos."
    ),
]
Engines = Annotated[str, typer.Option("--engine", help="Engines, see above.")]
Dense = Annotated[
    list[str] | None,
    advanced(
        help="Dense model of the index; rerank: the vectors and the text tower that it re-ranks "
        "by; clustered: synthetic vectors. Repeatable."
    ),
]
Ks = Annotated[str, typer.Option("-k", help="Maximum numbers of hits.")]
Threads = Annotated[str, advanced(help="Numbers of threads that search at once.")]
Seconds = Annotated[
    float | None, advanced(min=0.01, help=f"Seconds of a measurement (default: {SECONDS:g}).")
]

SPEED_STAGES = {"encode": ("Encoding images", "images"), "rounds": ("  Timing", "rounds")}


def speed(
    context: typer.Context,
    index: IndexFolder,
    out: SpeedOut = Path("speed"),
    quick: Quick = False,
    images: Sizes = None,
    top_n: TopNs = None,
    queries: OptionalQueries = None,
    captions: OptionalCaptions = None,
    split: Split = "val",
    engine: Engines = USUAL_ENGINES,
    k: Ks = "10",
    features: Features = None,
    model: SpeedModels = None,
    corpus: Corpus = "synthetic",
    dense: Dense = None,
    threads: Threads = "1",
    seconds: Seconds = None,
) -> None:
    """Time search against the number of images, engines side by side (VisualSparta, tables 2, 3).

    Makes collections of any size from the photos of an index. All engines answer the same queries
    in turns; a full scan checks the first hundred answers of every cell. An interrupted run
    continues. OUT gets speed.md, speed.json and two figures.

    Engines for term scores: columns, lucene, bm25s. For dense vectors: numpy, faiss-flat,
    faiss-hnsw. A million images take 2 to 8 GB of memory an engine.

    For example:

    sparta bench speed index --quick

    sparta bench speed index --captions captions.jsonl

    sparta bench speed index --dense vse-inf --engine columns,numpy,faiss-hnsw --threads 1,2

    sparta bench speed index --dense rerank --engine columns,faiss-flat,faiss-hnsw --top-n 300
    """
    check_installed("bench", "matplotlib", "scipy", "torch", "transformers")
    from transformers.utils import logging

    from eval.bench.collections import check_kind
    from eval.bench.speed import Choices, Pace
    from eval.report import head_of, index_models

    logging.disable_progress_bar()
    choices = Choices(
        kind=check_kind(corpus),
        sizes=parse_numbers(images or (QUICK_SIZES if quick else SIZES), "--images"),
        top_n=_top_ns(top_n or (QUICK_TOP_NS if quick else TOP_NS)),
        ks=parse_numbers(k, "-k"),
        threads=parse_numbers(threads, "--threads"),
        engines=[name.strip() for name in engine.split(",")],
        dense=dense or ["clustered"],
        pace=Pace(seconds or (QUICK_SECONDS if quick else SECONDS)),
        work=out / "work",
    )
    head = head_of(context, index_models(index), seed=0)
    _speed(index, out, choices, head, (features or [], model or []), (queries, captions, split))


def _top_ns(text: str) -> list[int | None]:
    """In the order given: the first is special."""
    parts = [part.strip() for part in text.split(",")]
    return [None if part == "all" else parse_numbers(part, "--top-n")[0] for part in parts]


def _speed(
    index: Path,
    out: Path,
    choices: Choices,
    head: Json,
    made_by: tuple[list[Path], list[str]],
    asked: tuple[Path | None, Path | None, str],
) -> None:
    """Measure, print the tables, and write them with the figures."""
    from eval.bench.collections import open_source
    from eval.bench.queries import ask
    from eval.bench.speed import make_plan, measure_speed
    from eval.bench.tables import Results, markdown, method, save_plots, sheets, shown
    from eval.report import print_head
    from sparta.console import Console
    from sparta.progress import progress_bars

    console, wide = Console(stderr=True, soft_wrap=True, highlight=False), Console(width=WIDE)
    results = Results.open(out)
    results.begin({**head, "pace": asdict(choices.pace)})
    print_head(head)
    with progress_bars(SPEED_STAGES, console) as progress:
        source = open_source(index, *made_by, progress)
        plan = make_plan(index, source, ask(index, source, *asked), choices, results, console.print)
        for line in plan.lines():
            console.print(line)
        measure_speed(plan, results, progress, console.print)
    for sheet in sheets(results):
        typer.echo(sheet.title)
        wide.print(shown(sheet))
    for line in method(results):
        typer.echo(line)
    (out / "speed.md").write_text(markdown(results), encoding="utf-8")
    for path in [out / "speed.md", *save_plots(results, out)]:
        typer.echo(path)
