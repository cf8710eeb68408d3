"""Options that several commands of `sparta figure` share."""

from pathlib import Path
from typing import Annotated

import typer

Picture = Annotated[
    Path, typer.Option("--out", help="PNG file to write; its numbers go beside it, as .json.")
]
DenseModelName = Annotated[str, typer.Argument(help="A dense model's folder or hub name.")]
FeatureStoreFolder = Annotated[Path, typer.Option(help="Feature store.")]
