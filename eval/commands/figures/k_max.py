"""`sparta figure k-max`."""

from pathlib import Path
from typing import Annotated

import typer

from eval.commands.figures.options import FEATURES, OUT
from eval.commands.options import BATCH_SIZE, CAPTIONS, DEVICE, SPLIT, STAGES


def k_max(
    context: typer.Context,
    preset: Annotated[str, typer.Argument(help="Preset or YAML file, as of sparta train.")],
    features: Annotated[Path, FEATURES],
    captions: Annotated[Path, CAPTIONS],
    runs: Annotated[Path, typer.Option(help="Folder of the runs; those there are not repeated.")],
    out: Annotated[Path, OUT],
    visual: Annotated[
        str, typer.Option(help="K of the visual pooling: numbers and all.")
    ] = "1,5,10,20,all",
    text: Annotated[
        str, typer.Option(help="K of the text pooling: numbers and all.")
    ] = "1,5,10,20,all",
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="A setting for all runs, as of sparta train.")
    ] = None,
    split: Annotated[str, SPLIT] = "val",
    protocol: Annotated[str, typer.Option(help="all, coco-1k, coco-5k or flickr30k-1k.")] = "all",
    batch_size: Annotated[int, BATCH_SIZE] = 32,
    device: Annotated[str, DEVICE] = "auto",
) -> None:
    """Train a model for every pair of Ks of k-max pooling and draw their RSUM (GPO, figure 6).

    all is mean pooling, 1 is max pooling. Broken off, the command goes on where it was.

    [bold]Example[/bold]

    sparta figure k-max coco/vse++-region-bigru --features coco/regions --captions coco_precomp
    --split testall --protocol coco-1k --runs runs/k-max --out k-max.png
    """
    from rich.console import Console
    from transformers.utils import logging

    from eval.figures.k_max import draw, parse_sizes, run_grid, train_by_command
    from eval.plotting import check_out, save
    from eval.recall.model_recall import measure_model_recall, open_members
    from eval.recall.protocols import choose
    from sparta.captions.read import read_captions
    from sparta.progress import progress_bars

    logging.disable_progress_bar()
    check_out(out)
    sizes = parse_sizes(visual, "--visual"), parse_sizes(text, "--text")
    folds = choose(protocol, read_captions(captions, split))
    given = [f"data.features=[{features}]", f"data.captions={captions}", *(set_ or [])]

    def measure(model: Path) -> float:
        with progress_bars(STAGES, Console(stderr=True)) as show:
            members = open_members([str(model)], [features], False, device)
            return measure_model_recall(members, protocol, folds, batch_size, show).found.rsum

    settings = {"preset": preset, "set": given, "split": split, "protocol": protocol}
    grid = run_grid(runs, *sizes, settings, train_by_command(preset, given), measure)
    save(draw(grid), vars(grid), out, context.params)
