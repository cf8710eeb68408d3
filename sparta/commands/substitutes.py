"""The `substitutes` command."""

from pathlib import Path
from typing import Annotated

import typer

from sparta.errors import InputError

Model = Annotated[Path, typer.Argument(help="Folder of a VisualSparta model.")]
Encoder = Annotated[
    str,
    typer.Option(help="Text encoder by which words are compared: hub name or folder."),
]


def substitutes(model: Model, encoder: Encoder) -> None:
    """Give a model a table of substitutes: for each untrained word, the nearest trained terms.

    The table is MODEL/substitutes.json; sparta shrink does not copy it. An index of the model gets
    a copy, and a search replaces words that the index lacks. No encoder runs then.

    For example:

    sparta substitutes runs/mine/model --encoder sentence-transformers/all-MiniLM-L6-v2
    """
    from transformers.utils import logging

    from sparta.console import Console

    logging.disable_progress_bar()
    from sparta.model_id import read_model_config
    from sparta.progress import progress_bars
    from sparta.visualsparta.config import VisualSpartaConfig
    from sparta.visualsparta.model import VisualSparta
    from sparta.visualsparta.nearest_terms import WordEncoder, make_substitutes
    from sparta.word_tables import SUBSTITUTES, WordTables

    if not model.is_dir():
        raise InputError(f"{model} is not the folder of a VisualSparta model")
    read_model_config(model, (VisualSpartaConfig.model_type,), "VisualSparta model")
    console = Console()
    with progress_bars({"embed": ("Embedding words", "words")}, console) as progress:
        loaded = VisualSparta.from_pretrained(model)
        words = make_substitutes(loaded, WordEncoder(encoder), progress)
    WordTables.of(words).save(model)
    console.print(
        f"{model / SUBSTITUTES}: substitutes for {len(words):,} words",
        soft_wrap=True,
        highlight=False,
    )
