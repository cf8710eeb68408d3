"""`sparta figure k-max`."""

from pathlib import Path
from typing import Annotated

import typer

from eval.commands.figures.options import FeatureStoreFolder, Picture
from eval.commands.options import STAGES, BatchSize, Captions, Device, Split


def k_max(
    context: typer.Context,
    preset: Annotated[str, typer.Argument(help="Preset or YAML file, as of sparta train.")],
    features: FeatureStoreFolder,
    captions: Captions,
    runs: Annotated[Path, typer.Option(help="Folder of the runs; existing ones are not repeated.")],
    out: Picture,
    visual: Annotated[
        str, typer.Option(help="K of the visual pooling: numbers and all.")
    ] = "1,5,10,20,all",
    text: Annotated[
        str, typer.Option(help="K of the text pooling: numbers and all.")
    ] = "1,5,10,20,all",
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="A setting for all runs, as of sparta train.")
    ] = None,
    split: Split = "val",
    protocol: Annotated[str, typer.Option(help="all, coco-1k, coco-5k or flickr30k-1k.")] = "all",
    batch_size: BatchSize = 32,
    device: Device = "auto",
) -> None:
    """Train a model for every pair of Ks of k-max pooling and draw their RSUM (GPO, figure 6).

    all is mean pooling, 1 is max pooling. An interrupted command continues where it stopped.

    [bold]Example[/bold]

    sparta figure k-max coco/vse++-region-bigru --features coco/regions --captions coco_precomp
    --split testall --protocol coco-1k --runs runs/k-max --out k-max.png
    """
    from rich.console import Console
    from transformers.utils import logging

    from eval.figures.k_max import draw, parse_sizes, run_grid, train_by_command
    from eval.plotting import check_picture, save
    from eval.recall.model_recall import measure_model_recall, open_members
    from eval.recall.protocols import choose
    from sparta.captions.read import read_captions
    from sparta.progress import progress_bars

    logging.disable_progress_bar()
    check_picture(out)
    sizes = parse_sizes(visual, "--visual"), parse_sizes(text, "--text")
    folds = choose(protocol, read_captions(captions, split))
    given = [f"data.features=[{features}]", f"data.captions={captions}", *(set_ or [])]

    def measure(model: Path) -> float:
        with progress_bars(STAGES, Console(stderr=True)) as progress:
            members = open_members([str(model)], [features], False, device)
            return measure_model_recall(
                members, protocol, folds, batch_size, progress=progress
            ).found.rsum

    settings = {"preset": preset, "set": given, "split": split, "protocol": protocol}
    grid = run_grid(runs, *sizes, settings, train_by_command(preset, given), measure)
    save(draw(grid), vars(grid), out, context.params)
