"""`sparta bench publish`."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import typer

Index = Annotated[Path, typer.Argument(help="Index folder made by sparta index.")]
Queries = Annotated[Path, typer.Option(help="Text file with one query a line.")]
Out = Annotated[Path, typer.Option(help="JSON file for the results; those of other sites stay.")]
Site = Annotated[Path, typer.Option(help="Folder for the site; must not exist.")]
Images = Annotated[
    int | None, typer.Option(help="Make a collection of so many images of those of the index.")
]
Kind = Annotated[str, typer.Option(help="Of that collection: copies, mixed of two each, or drawn.")]
Visits = Annotated[int, typer.Option(min=2, help="Browsers that open the page.")]
Hosts = Annotated[
    str,
    typer.Option(
        "--host", help="http2, http1: hosts that answer ranges; whole-files: one without."
    ),
]
FileBytes = Annotated[int, typer.Option(min=1024, help="Bytes of a file of the index at most.")]

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def publish(
    index: Index,
    queries: Queries,
    out: Out,
    site: Site,
    images: Images = None,
    kind: Kind = "copies",
    visits: Visits = 15,
    host: Hosts = "http2,http1",
    file_bytes: FileBytes = 2**20,
) -> None:
    """Measure a published site in Chromium at 10 Mbit/s and 50 ms a request.

    [bold]Example[/bold]

    sparta bench publish index/ --queries captions.txt --site /tmp/site --out publish.json
    """
    from rich.console import Console

    from eval.bench.publishing.made import collection_to_publish, write_site
    from eval.bench.publishing.measure import HOSTS
    from eval.bench.publishing.results import measure_and_save
    from eval.bench.query_latency.collections.enlarge import KINDS
    from server.commands.publish import STAGES
    from sparta.errors import InputError
    from sparta.progress import progress_bars

    if kind not in KINDS:
        raise InputError(f"--kind must be one of {', '.join(KINDS)}, got {kind!r}")
    hosts = [name.strip() for name in host.split(",")]
    if unknown := [name for name in hosts if name not in HOSTS]:
        raise InputError(f"--host: {unknown[0]!r} is not one of: {', '.join(HOSTS)}")
    browser = next(filter(None, map(shutil.which, NAMES)), None)
    if browser is None:
        raise InputError(f"no browser is in PATH: install one of {', '.join(NAMES)}")
    with (
        progress_bars(STAGES, Console(stderr=True)) as progress,
        collection_to_publish(index, images, kind) as collection,
    ):
        sizes = write_site(site, collection, file_bytes, progress)
        about = {
            "images": len(collection),
            "postings": int(collection.impacts.nnz),
            "kind": kind if images else "as indexed",
            "file_bytes": file_bytes,
        }
    for name in hosts:
        own = about | {"host": name}
        typer.echo(measure_and_save(out, own, sizes, site, queries, browser, visits))
