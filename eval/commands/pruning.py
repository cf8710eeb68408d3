"""`sparta eval pruning`."""

from pathlib import Path
from typing import Annotated

import typer

from eval.commands.options import STAGES, BatchSize, Captions, Device, Split, check_out

Stores = Annotated[
    list[Path], typer.Argument(help="Feature stores: the plain photos first, then augmentations.")
]
SparseModels = Annotated[
    list[str],
    typer.Option(help="VisualSparta model: folder or hub name. Repeat it to average models."),
]
OutTables = Annotated[
    Path,
    typer.Option(
        help="JSON file; beside it go the tables, as .md, and recall against bytes, as .png."
    ),
]
TopN = Annotated[str, typer.Option(help="Terms an image keeps: numbers and all.")]
Offsets = Annotated[
    str, typer.Option("--offset", help="Per-term offsets: mean, median, minimum, none.")
]
TermSets = Annotated[str, typer.Option("--terms", help="Terms allowed: trained, all.")]
Asked = Annotated[
    str,
    typer.Option(
        help="Sources of term frequencies: none, model (training captions), files of queries."
    ),
]
AskedPower = Annotated[str, typer.Option(help="Powers of the frequencies, from 0 to 1.")]
Bits = Annotated[str, typer.Option(help="Bits of an impact, 1 to 16, and float (not quantised).")]
Exact = Annotated[
    bool, typer.Option("--exact", help="Sum impacts in memory: the same ranking without indexes.")
]
IndexesFolder = Annotated[
    Path | None,
    typer.Option(
        help="Folder to keep the indexes in; with --exact they are built for their size alone."
    ),
]
AllImages = Annotated[
    bool, typer.Option("--all-images", help="Search all photos of the store, not only the split's.")
]


def pruning(
    context: typer.Context,
    features: Stores,
    model: SparseModels,
    captions: Captions,
    out: OutTables,
    split: Split = "val",
    top_n: TopN = "50,100,200,500,1000,2000,all",
    offset: Offsets = "mean,median,minimum,none",
    terms: TermSets = "trained,all",
    asked: Asked = "none",
    asked_power: AskedPower = "0.3",
    bits: Bits = "8,float",
    exact: Exact = False,
    indexes: IndexesFolder = None,
    all_images: AllImages = False,
    batch_size: BatchSize = 32,
    device: Device = "auto",
) -> None:
    """Measure what pruning and quantisation cost, for every combination of the lists given.

    Recall, and the overlap in percent of the first ten images with those of the float model, where
    nothing is pruned or quantised (the first row), and with those of the same terms not quantised.
    Offsets are estimated over the photos searched.

    The scores take 6 bytes for each image and term, at most 8 GB (43,000 images at 30,522 terms).
    Each quantised choice is built as an index; --exact sums the same impacts in memory, faster.

    A second table has the recall of short queries, made of the captions: one to three words that
    another caption of the photo contains too, those in the fewest photos' captions; and of captions
    and short queries with a word that 1 to 9, 10 to 99 or 100 to 999 training captions contain.

    [bold]Examples[/bold]

    sparta eval pruning plain/ flip/ --model seed0/ --model seed1/ --captions captions.jsonl
    --out results.json --top-n 100,1000 --offset mean,none --terms trained --exact
    """
    from rich.console import Console
    from transformers.utils import logging

    from eval.machine import circumstances
    from eval.pruning.choices import parse_bits, parse_choices
    from eval.pruning.frontier import save_frontier
    from eval.pruning.measure import measure_pruning
    from eval.pruning.results import save, table
    from sparta.captions.read import read_captions
    from sparta.features.store import FeatureStore
    from sparta.progress import progress_bars

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    choices = parse_choices(top_n, offset, terms, asked, asked_power)
    widths = parse_bits(bits)
    check_out(out)
    with progress_bars(STAGES, Console(stderr=True)) as progress:
        study = measure_pruning(
            [FeatureStore.open(folder) for folder in features],
            model,
            read_captions(captions, split),
            choices,
            widths,
            exact=exact,
            indexes=indexes,
            all_images=all_images,
            batch_size=batch_size,
            device=device,
            progress=progress,
        )
    save(study, out, {"arguments": dict(context.params), **circumstances()})
    save_frontier(study.rows, out.with_suffix(".png"))
    Console().print(table(study))
