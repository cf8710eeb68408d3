"""Options that commands of several rooms share."""

from typing import Annotated

import typer

Ray = Annotated[
    str | None,
    typer.Option(
        "--ray",
        metavar="ADDRESS|local",
        help="Let the workers of a Ray cluster compute: HOST:PORT of its head or auto, from a "
        "machine of the cluster; local for workers on this machine. All machines need the same "
        "folders and models under the same paths.",
    ),
]
