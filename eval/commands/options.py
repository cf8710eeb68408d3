"""Options that several commands of `sparta eval` and `bench` share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast, get_args

import typer

from sparta.errors import InputError

if TYPE_CHECKING:
    from sparta.captions.read import ImageKey as ImageKeyName

IndexFolder = Annotated[Path, typer.Argument(help="Index folder made by sparta index.")]
Models = Annotated[list[str], typer.Argument(help="Model folders or hub names.")]

CAPTIONS = typer.Option(
    help="Captioned photos: captions.jsonl, or any other format that sparta captions reads."
)
Captions = Annotated[Path, CAPTIONS]
OptionalCaptions = Annotated[Path | None, CAPTIONS]
SPLIT = typer.Option(help="Split of the captions whose photos are the targets.")
Split = Annotated[str, SPLIT]
ImageKey = Annotated[
    str,
    typer.Option(help="Field that is the image id in COCO's and Karpathy's JSON: file, cocoid."),
]
FEATURES = typer.Option(
    help="Feature store, or photos for a model with a vision network inside: one for each "
    "model, or one for all."
)
Features = Annotated[list[Path], FEATURES]
Transfer = Annotated[
    bool, typer.Option("--transfer", help="Accept features the model was not trained on.")
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
}


def check_out(out: Path | None) -> None:
    """Refuse a file that could not be written when the work is done.

    Raises:
        InputError: if it is no .json file in a folder that exists.
    """
    if out is not None and (out.suffix != ".json" or not out.parent.is_dir()):
        raise InputError(f"--out {out} must be a .json file in a folder that exists")


def check_image_key(name: str) -> ImageKeyName:
    """Accept "file" and "cocoid".

    Raises:
        InputError: for anything else.
    """
    from sparta.captions.read import ImageKey as ImageKeyName

    if name not in get_args(ImageKeyName):
        raise InputError(f"--image-key {name!r}: expected {' or '.join(get_args(ImageKeyName))}")
    return cast(ImageKeyName, name)


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
