"""Options that several commands of `sparta eval` and `bench` share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sparta.errors import InputError

IndexFolder = Annotated[Path, typer.Argument(help="Index folder made by sparta index.")]
Models = Annotated[list[str], typer.Argument(help="Model folders or hub names.")]

CAPTIONS = typer.Option(
    help="Captioned photos: captions.jsonl, or any other format that sparta captions reads."
)
Captions = Annotated[Path, CAPTIONS]
OptionalCaptions = Annotated[Path | None, CAPTIONS]
SPLIT = typer.Option(help="Split of the captions whose photos are the targets.")
Split = Annotated[str, SPLIT]
FEATURES = typer.Option(
    help="Feature store, or photos for a model with a vision network inside: one for each "
    "model, or one for all."
)
Features = Annotated[list[Path], FEATURES]
Transfer = Annotated[
    bool, typer.Option("--transfer", help="Accept features the model was not trained on.")
]
AllowMissing = Annotated[
    bool,
    typer.Option(
        "--allow-missing", help="Leave out photos that are missing; the result counts them."
    ),
]
BatchSize = Annotated[int, typer.Option(min=1, help="Images per pass.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, …")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Out = Annotated[
    Path | None,
    typer.Option(help="JSON file for the figures, the arguments, the version and the machine."),
]
Hits = Annotated[int, typer.Option("-k", min=1, help="Images to return per query.")]

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
    """Refuse a file that could not be written when the work is done.

    Args:
        out: the file, None if there is none.
        option: of the command line that named it.
        suffix: that its name must have; "" for any.

    Raises:
        InputError: if its name has another suffix, or its folder does not exist.
    """
    if out is not None and not (out.name.endswith(suffix) and out.parent.is_dir()):
        kind = f"a {suffix} file" if suffix else "a file"
        raise InputError(f"{option} {out} must be {kind} in a folder that exists")


def parse_numbers(text: str, option: str) -> list[int]:
    """Rising numbers from a list with commas, each once.

    Raises:
        InputError: if one is not a positive number.
    """
    parts = [part.strip() for part in text.split(",")]
    for part in parts:
        if not (part.isdecimal() and int(part)):
            raise InputError(f"{option}: {part!r} is not a number from 1")
    return sorted({int(part) for part in parts})
