"""The `shrink` command."""

from pathlib import Path
from typing import Annotated

import typer

from sparta.errors import InputError

Model = Annotated[str, typer.Argument(help="VisualSparta model: folder or hub name.")]
Out = Annotated[Path, typer.Option(help="Folder for the compact model.")]


def shrink(model: Model, out: Out) -> None:
    """Make a VisualSparta model small enough to hand on: a tenth of its size.

    Weights are stored in half precision, and the query embedding of trained terms only: terms in
    no training caption can no longer enter an index (--terms all). Recall does not change
    measurably.

    For example:

    sparta shrink runs/mine/model --out mine/
    """
    from transformers.utils import logging

    from sparta.console import Console

    logging.disable_progress_bar()
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"{out} is not empty: use another --out, or delete it")
    from sparta.model_id import read_model_config
    from sparta.visualsparta.config import VisualSpartaConfig
    from sparta.visualsparta.model import VisualSparta

    read_model_config(model, (VisualSpartaConfig.model_type,), "VisualSparta model")
    loaded = VisualSparta.from_pretrained(model)
    loaded.make_compact()
    loaded.save_pretrained(out)
    size = sum(path.stat().st_size for path in out.iterdir()) / 1e6
    terms = int(loaded.trained_terms.sum())
    Console().print(
        f"{out}: {size:.1f} MB, {terms:,} trained terms, half precision",
        soft_wrap=True,
        highlight=False,
    )
