"""Options that several commands of `sparta eval` and `bench` share."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sparta.commands.options import advanced
from sparta.errors import InputError

if TYPE_CHECKING:
    from sparta.progress import Progress

CAPTIONS = typer.Option(help="Captioned photos, in any format that sparta captions reads.")
Captions = Annotated[Path, CAPTIONS]
OptionalCaptions = Annotated[Path | None, CAPTIONS]
SPLIT = typer.Option(help="Split of the captions whose photos are measured.")
Split = Annotated[str, SPLIT]
FEATURES = typer.Option(
    help="Feature store, or photos for a model with a vision network; one a model, or one for all."
)
QUERIES = typer.Option(
    help='Queries: one a line, or JSON Lines {"query": …, "images": [right ids]}.'
)
OptionalQueries = Annotated[Path | None, QUERIES]
Transfer = Annotated[
    bool, advanced("--transfer", help="Accept features the model was not trained on.")
]
AllowMissing = Annotated[
    bool, advanced("--allow-missing", help="Leave out missing photos; the result counts them.")
]
Out = Annotated[
    Path | None,
    typer.Option(help="JSON file for the figures, the arguments, the version and the machine."),
]

STAGES = {
    "encode": ("Encoding images", "images"),
    "images": ("Encoding images", "images"),
    "texts": ("Encoding captions", "captions"),
    "rank": ("Ranking", "queries"),
    "search": ("Searching", "queries"),
    "run": ("Writing the run", "queries"),
    "choose": ("Pruning", "choices"),
}


def check_out(out: Path | None, option: str = "--out", suffix: str = ".json") -> None:
    """Refuse a file, if any, that could not be written when the work is done; any suffix for ""."""
    if out is not None and not (out.name.endswith(suffix) and out.parent.is_dir()):
        kind = f"a {suffix} file" if suffix else "a file"
        raise InputError(f"{option} {out} must be {kind} in a folder that exists")


def begin(
    out: Path | None, suffix: str = ".json", stages: Mapping[str, tuple[str, str]] = STAGES
) -> AbstractContextManager[Progress]:
    """Check the file to write, and show bars of the progress, but none of transformers' own."""
    from transformers.utils import logging

    from sparta.console import Console
    from sparta.progress import progress_bars

    check_out(out, suffix=suffix)
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    return progress_bars(stages, Console(stderr=True))


def parse_numbers(text: str, option: str) -> list[int]:
    """Rising numbers, at least 1, from a list with commas, each once."""
    parts = [part.strip() for part in text.split(",")]
    for part in parts:
        if not (part.isdecimal() and int(part)):
            raise InputError(f"{option}: {part!r} is not a number from 1")
    return sorted({int(part) for part in parts})
