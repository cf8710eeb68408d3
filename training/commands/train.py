"""`sparta train`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def train(
    preset: Annotated[str, typer.Argument(help="A preset's name, or a YAML file.")],
    out: Annotated[Path, typer.Option(help="Folder of the run; its model/ is the result.")],
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="Replace one setting, such as data.captions=captions.jsonl."),
    ] = None,
    init: Annotated[
        str | None,
        typer.Option(help="Checkpoint to start from, as --set model.init: NAME, DIR or oscar:DIR."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a broken-off run.")] = False,
) -> None:
    r"""Train a VisualSparta model on features and captions.

    OUT/model is the result; OUT/logs/version_0/metrics.csv and OUT/tensorboard hold the curves
    (a resumed run's own go to version_1, and so on).
    A run that was broken off goes on with --resume and ends as it would have.

    [bold]Examples[/bold]

    sparta train sample --out runs/mine --set data.photos=photos --set data.backbone=pixels
    --set data.captions=captions.jsonl

    sparta train flickr8k-mobilenet --out runs/mine --set data.features=\[features]
    --set data.captions=captions.jsonl --init sentence-transformers/all-MiniLM-L6-v2

    sparta train coco/visualsparta --out runs/mine --set data.features=\[features]
    --set data.captions=dataset_coco.json --init oscar:base-vg-labels/ep_67_588997

    sparta train runs/mine/config.yaml --out runs/mine --resume
    """
    import logging
    import os
    import warnings

    # Read when torch is loaded: waiting threads must not take the cores from loader processes.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from rich.console import Console
    from transformers.utils import logging as transformers_logging

    logging.basicConfig(format="%(message)s")
    warnings.filterwarnings("ignore", module="lightning")
    transformers_logging.disable_progress_bar()
    from training.config import load_config
    from training.fit import train as fit

    # After the import, which sets the level itself.
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    settings = [*(set_ or []), *([] if init is None else [f"model.init={init}"])]
    result = fit(load_config(preset, settings), out, resume)
    console = Console()
    for name, value in result.recall.items():
        console.print(f"{name}: {value:.1f}")
    console.print(f"Model after {result.epochs} epochs: {result.model}")
    console.print(f"Next: sparta index FEATURES_OR_PHOTOS --model {result.model} --out index")
