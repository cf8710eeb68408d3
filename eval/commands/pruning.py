"""`sparta eval pruning`."""

from pathlib import Path
from typing import Annotated

import typer

from eval.commands.options import BATCH_SIZE, CAPTIONS, DEVICE, SPLIT, STAGES, check_out


def pruning(
    features: Annotated[list[Path], typer.Argument(help="Feature stores: views of the photos.")],
    model: Annotated[
        list[str],
        typer.Option(help="VisualSparta model: folder or hub name. Repeat it to average models."),
    ],
    captions: Annotated[Path, CAPTIONS],
    out: Annotated[Path, typer.Option(help="JSON file; the table goes beside it, as .md.")],
    split: Annotated[str, SPLIT] = "val",
    top_n: Annotated[
        str, typer.Option(help="Terms an image keeps: numbers and all, with commas between.")
    ] = "50,100,200,500,1000,2000,all",
    offset: Annotated[
        str, typer.Option(help="Of mean, median, minimum, none: which to try.")
    ] = "mean,median,minimum,none",
    terms: Annotated[
        str, typer.Option(help="Of seen (in training), all: which to try.")
    ] = "seen,all",
    bits: Annotated[
        str, typer.Option(help="Bits of an impact, 1 to 16, and float (not rounded): which to try.")
    ] = "8,float",
    exact: Annotated[
        bool,
        typer.Option("--exact", help="Sum impacts in memory: the same ranking, and no indexes."),
    ] = False,
    all_images: Annotated[
        bool,
        typer.Option("--all-images", help="Search all photos of the store, not the split's alone."),
    ] = False,
    batch_size: Annotated[int, BATCH_SIZE] = 32,
    device: Annotated[str, DEVICE] = "auto",
) -> None:
    """Measure what pruning and rounding cost, for every combination of what is asked for.

    Recall, and of the first ten images how many, in percent, are also among the first ten of the
    float model, where nothing is pruned or rounded (the first row), and of the same terms not
    rounded. Offsets are estimated over the photos searched.

    The photos are encoded once and kept in memory: 6 bytes for each image and term, at most 8 GB
    (43,000 images at 30,522 terms). Each choice that is rounded then gets an index of its own,
    which is asked every caption; --exact sums the same impacts in memory, which is much quicker.

    [bold]Examples[/bold]

    sparta eval pruning features/ --model model/ --captions captions.jsonl --out results.json

    sparta eval pruning features/ --model model/ --captions captions.jsonl --out results.json
    --exact --bits 6,8,10,12,float --terms trained

    sparta eval pruning plain/ flip/ --model seed0/ --model seed1/ --captions captions.jsonl
    --out results.json --top-n 100,1000 --offset mean,none --terms trained
    """
    from rich.console import Console
    from transformers.utils import logging

    from eval.machine import circumstances
    from eval.pruning.measure import measure_pruning
    from eval.pruning.results import parse_bits, parse_choices, save, table
    from sparta.captions.read import read_captions
    from sparta.features.store import FeatureStore
    from sparta.progress import progress_bars

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    choices, widths = parse_choices(top_n, offset, terms), parse_bits(bits)
    check_out(out)
    arguments = {
        "features": [str(folder) for folder in features],
        "model": model,
        "captions": str(captions),
        "split": split,
        "top_n": top_n,
        "offset": offset,
        "terms": terms,
        "bits": bits,
        "exact": exact,
        "all_images": all_images,
        "batch_size": batch_size,
        "device": device,
    }
    with progress_bars(STAGES, Console(stderr=True)) as show:
        study = measure_pruning(
            [FeatureStore.open(folder) for folder in features],
            model,
            read_captions(captions, split),
            choices,
            widths,
            exact=exact,
            all_images=all_images,
            batch_size=batch_size,
            device=device,
            progress=show,
        )
    save(study, out, {"arguments": arguments, **circumstances()})
    Console().print(table(study))
