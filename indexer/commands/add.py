"""`sparta add`."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from indexer.commands.options import BatchSize, Device, IndexFolder, ReadPhotos
from sparta.errors import InputError

Photos = Annotated[
    list[Path] | None, typer.Argument(help="Photos, or folders of photos, to add or replace.")
]
Features = Annotated[
    list[Path] | None,
    typer.Option(
        "--features",
        metavar="STORE",
        help="Feature store to add instead of photos; repeat it for augmentations, the plain one "
        "first.",
    ),
]
Models = Annotated[
    list[str],
    typer.Option("--model", help="The model that the index was built with. Repeat for several."),
]
AskedFile = Annotated[
    Path | None,
    typer.Option("--asked", help="The file of queries, if the index was built with one."),
]
MetadataFile = Annotated[
    Path | None,
    typer.Option(
        "--metadata", help='JSON Lines with metadata: {"image": "beach/a.jpg", "taken": "2024"}.'
    ),
]


def add(
    index: IndexFolder,
    photos: Photos = None,
    features: Features = None,
    model: Models = ["photos"],  # noqa: B006  # typer copies it
    asked: AskedFile = None,
    metadata: MetadataFile = None,
    photo_metadata: ReadPhotos = True,
    batch_size: BatchSize = 32,
    device: Device = "auto",
) -> None:
    """Add photos to an index, or replace those that have their ids.

    Photos in the folder that the index was built from have ids relative to it, as sparta index
    gives them. Others have ids relative to the folder that is given, or that they are in.

    Images are encoded with the offsets, scale and terms of the index. They are found by the next
    search, and by a running sparta serve within a second or two. Photos are only read.

    For example:

    sparta add index/ ~/Pictures/2024/beach

    sparta add index/ ~/Pictures/new.jpg ~/Pictures/newer.jpg

    sparta add index/ --features features/ --model model/
    """
    from indexer.commands.building import STAGES, kept_aside
    from sparta.extras import set_up_libraries

    set_up_libraries()
    from indexer.encoding.features import opened_stores
    from indexer.metadata import read_metadata
    from indexer.update.images import add_images
    from sparta.console import Console
    from sparta.progress import progress_bars

    if bool(photos) == bool(features):
        raise InputError("give photos, or feature stores as --features, and not both")
    about = read_metadata(metadata) if metadata else {}
    console = Console()
    with (
        progress_bars(STAGES, console) as show,
        opened_stores(index, photos or [], features or [], model, device, show) as (
            stores,
            skipped,
        ),
    ):
        report = add_images(
            index,
            stores,
            model,
            asked=asked,
            metadata=about,
            read_photos=photo_metadata,
            batch_size=batch_size,
            device=device,
            progress=show,
        )
    say = partial(console.print, soft_wrap=True, highlight=False)
    for one in skipped:
        say(f"skipped {one.image_id}: {one.reason}")
    left = f", {len(skipped):,} skipped" if skipped else ""
    left += kept_aside(report.aside)
    counts = f"{report.added:,} images added, {report.replaced:,} replaced"
    say(f"{index}: {counts}{left}; {report.images:,} in all")
