"""The command `sparta train`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sparta.extras import check_installed

if TYPE_CHECKING:
    from training.run_folder import TrainResult

Preset = Annotated[str, typer.Argument(help="Name of a preset, or a YAML file.")]
Out = Annotated[Path, typer.Option(help="Folder of the run; the model goes to OUT/model.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Another setting; repeatable"),
]
Init = Annotated[
    str | None, typer.Option(help="Checkpoint to start from: NAME, DIR or oscar:DIR (model.init).")
]
Resume = Annotated[bool, typer.Option("--resume", help="Continue the run in OUT, or train it on.")]


def train(
    preset: Preset,
    out: Out,
    set_: Settings = None,
    init: Init = None,
    resume: Resume = False,
) -> None:
    r"""Train a VisualSparta or dense VSE model on captioned photos or their features.

    Writes the model to OUT/model, curves to OUT/logs and OUT/tensorboard. Holds out a tenth of the
    photos, and prints recall on them after each epoch. A resumed run ends with the same weights as
    an uninterrupted one. Features of data.photos are extracted once, into features/ beside OUT.

    For example:

    sparta train sample --out runs/mine --set data.photos=photos --set data.backbone=pixels
    --set data.captions=captions.jsonl

    sparta train coco/visualsparta --out runs/mine --set data.features=\[features]
    --set data.captions=dataset_coco.json --init oscar:base-vg-labels/ep_67_588997

    sparta train runs/mine/config.yaml --out runs/mine --resume
    """
    import logging
    import os
    import warnings

    # Before torch is loaded: idle threads must not take the cores from the loader processes.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from training.config import load_config

    # Before torch is loaded, which takes seconds.
    config = load_config(preset, overrides(set_, init))
    check_installed("train", "lightning", "tensorboard", "torch", "transformers")
    from transformers.utils import logging as transformers_logging

    logging.basicConfig(format="%(message)s")
    warnings.filterwarnings("ignore", module="lightning")
    transformers_logging.disable_progress_bar()
    from training.fit import train as fit

    # After the import, which sets the level.
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    dense = config.family == "vse" or (config.family == "term-vectors" and config.dense)
    _show(fit(config, out, resume), dense, out)


def _show(result: TrainResult, dense: bool, out: Path) -> None:
    """The figures, and what to do next."""
    from sparta.console import Console

    console = Console()
    for name, value in result.recall.items():
        console.print(f"{name}: {value:.1f}")
    if result.model.is_dir():
        console.print(f"Model after {result.epochs} epochs: {result.model}")
        command = f"index PHOTOS --model {result.model} --out index"
        if dense:
            command = f"add INDEX PHOTOS --dense {result.model}"
        console.print(f"Next: sparta {command}")
        if result.recall:
            console.print(f"or:   sparta eval model {out}")
    else:
        console.print(f"Next: sparta train photos --set data.backbone={result.model}")


def overrides(set_: list[str] | None, init: str | None) -> list[str]:
    """The settings that options give, as `load_config` takes them."""
    settings = [*(set_ or [])]
    if init is not None:
        settings.append(f"model.init={init}")
    return settings
