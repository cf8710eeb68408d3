"""The `import-immich` command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sparta.errors import InputError

Address = Annotated[str, typer.Argument(metavar="URL", help="Address of the immich server.")]
Out = Annotated[Path, typer.Option(help="Folder for the photos and their metadata.")]
Key = Annotated[
    str | None,
    typer.Option(
        "--api-key",
        envvar="IMMICH_API_KEY",
        help="API key of immich with the permissions asset.read, asset.view and, for --originals, "
        "asset.download; other users of this machine see options, but not the environment.",
    ),
]
Originals = Annotated[
    bool,
    typer.Option(
        "--originals", help="Download the files themselves, instead of the previews immich made."
    ),
]


def import_immich(
    address: Address, out: Out, api_key: Key = None, originals: Originals = False
) -> None:
    """Download the photos of an immich library, with their metadata, to be indexed.

    A photo's id in the index is its id in immich with the suffix of the file. The command
    continues when it is interrupted, and when it is repeated downloads what is new or changed and
    deletes what immich has no more.

    For example:

    sparta import-immich http://localhost:2283 --out immich

    sparta index immich/photos --metadata immich/metadata.jsonl --out index
    """
    from sparta.console import Console
    from sparta.features.record import SKIPPED
    from sparta.immich.download import download
    from sparta.immich.library import Library
    from sparta.progress import progress_bars

    if not api_key:
        raise InputError("set IMMICH_API_KEY to an API key of immich: see docs/features.md")
    console = Console()
    stages = {"download": ("Downloading photos", "photos")}
    with Library(address, api_key) as library, progress_bars(stages, console) as show:
        done = download(library, out, originals, show)
    line = f"{out}: {done.photos:,} photos, {done.new:,} downloaded, {done.removed:,} removed"
    if done.skipped:
        line += f"; {len(done.skipped):,} could not be used: see {out / SKIPPED}"
    console.print(line, soft_wrap=True, highlight=False)
