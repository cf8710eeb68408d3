"""Options that several commands of `sparta eval` share."""

from pathlib import Path

import typer

from sparta.errors import InputError

CAPTIONS = typer.Option(
    help="Captioned photos: captions.jsonl, COCO's or Karpathy's JSON, or a precomp or HGR folder."
)
SPLIT = typer.Option(help="Which photos of the captions to look for.")
BATCH_SIZE = typer.Option(min=1, help="Images per pass.")
DEVICE = typer.Option(help="auto, cpu, cuda, …")
FEATURES = typer.Option(
    help="Feature store, or photos for a model with a vision network inside: one for each model, "
    "or one for all."
)
TRANSFER = typer.Option("--transfer", help="Accept features the model was not trained on.")

STAGES = {
    "encode": ("Encoding images", "images"),
    "images": ("Encoding images", "images"),
    "texts": ("Encoding captions", "captions"),
    "rank": ("Ranking", "queries"),
    "search": ("Searching", "queries"),
}


def check_out(out: Path | None) -> None:
    """Refuse a file that could not be written when the work is done.

    Raises:
        InputError: if it is no .json file in a folder that exists.
    """
    if out is not None and (out.suffix != ".json" or not out.parent.is_dir()):
        raise InputError(f"--out {out} must be a .json file in a folder that exists")
