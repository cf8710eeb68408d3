"""`sparta add`, `update`, `delete` and `sync`: the images of an index change."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from indexer.commands.options import BatchSize, Device, IndexFolder, ReadPhotos, Yes, reading_filter
from sparta.errors import InputError

if TYPE_CHECKING:
    from indexer.update.sync import PhotoSync, SyncReport
    from sparta.console import Console


def ask(question: str, yes: bool) -> None:
    """Go on after a yes only.

    Args:
        question: with what will happen, ending in a question mark.
        yes: the option `--yes`, which answers it.

    Raises:
        InputError: if the answer is no, or there is nobody to ask.
    """
    try:
        agreed = yes or typer.confirm(question, err=True)
    except typer.Abort:  # standard input is at its end: a script, or Ctrl+C
        typer.echo(err=True)
        agreed = False
    if not agreed:
        raise InputError("nothing was changed; --yes does it without asking")


NewPhotos = Annotated[
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
    photos: NewPhotos = None,
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
    from indexer.commands.build import STAGES, kept_aside
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


Changes = Annotated[
    Path,
    typer.Argument(
        metavar="METADATA",
        help="JSON Lines, CSV or Parquet with the image's id as the field image.",
    ),
]


def update(index: IndexFolder, metadata: Changes) -> None:
    """Change metadata of images in an index, without encoding them again.

    Fields that are given replace those of the same name, all others stay. In JSON Lines null
    removes a field; empty cells of a table change nothing.

    The next search finds the images by their new metadata, a running sparta serve within a second
    or two.

    For example:

    sparta update index/ albums.jsonl

    sparta update index/ ratings.csv
    """
    from indexer.metadata import read_metadata
    from indexer.update.images import update_metadata
    from sparta.console import Console
    from sparta.progress import progress_bars

    console = Console()
    stages = {"update": ("Changing metadata", "images")}
    with progress_bars(stages, Console(stderr=True)) as progress:
        report = update_metadata(index, read_metadata(metadata), progress)
    counts = f"metadata of {report.changed:,} images changed, {report.unchanged:,} as before"
    if report.unknown:
        counts += f"; {len(report.unknown):,} not in the index: {listed(report.unknown)}"
    console.print(f"{index}: {counts}", soft_wrap=True, highlight=False)


def listed(names: list[str], most: int = 20) -> str:
    """Names in one line, and how many more there are."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


Ids = Annotated[
    list[str] | None, typer.Argument(help="Ids of images, as sparta search shows them.")
]
Filter = Annotated[
    str | None,
    typer.Option(
        "--filter",
        metavar="TEXT",
        help="Delete the images that it lets through instead: conditions on fields of their "
        "metadata, such as 'taken:..2009 folder:raw'.",
    ),
]
FEW = 10  # images that a filter may delete without a question


def delete(
    index: IndexFolder, ids: Ids = None, filter_text: Filter = None, yes: Yes = False
) -> None:
    """Delete images from an index; all of them, or none if one is not there.

    The photos themselves stay where they are. The next search finds the images no longer, a
    running sparta serve within a second or two.

    For example:

    sparta delete index/ "beach/two dogs.jpg"

    sparta delete index/ 2023/a.jpg 2023/b.jpg

    sparta delete index/ --filter "folder:raw -rating:>=3"
    """
    from indexer.engines.open import open_index
    from indexer.update.images import delete_images

    if bool(ids) == (filter_text is not None):
        raise InputError("give ids, or a --filter, and not both")
    if filter_text is not None:
        searcher = open_index(index)
        with reading_filter(filter_text) as filter:
            ids, images = searcher.ids(filter), len(searcher)
        if not ids:
            typer.echo(f"{index}: the filter lets none of {images:,} images through")
            return
        if len(ids) > FEW:
            ask(f"{index}: delete {len(ids):,} of {images:,} images?", yes)
    left = delete_images(index, ids or [])
    count = len(set(ids or []))
    typer.echo(f"{index}: {count:,} image{'s' * (count != 1)} deleted; {left:,} in all")


Photos = Annotated[Path, typer.Argument(help="Folder of photos, searched at any depth.")]
Watch = Annotated[bool, typer.Option("--watch", help="Follow the folder until Ctrl+C.")]
Every = Annotated[
    float, typer.Option(min=0.1, help="With --watch: seconds from one look to the next.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Count what would be done, and end.")]
MOST = 20  # photos listed one by one


def sync(
    index: IndexFolder,
    photos: Photos,
    model: Models = ["photos"],  # noqa: B006  # typer copies it
    asked: AskedFile = None,
    photo_metadata: ReadPhotos = True,
    watch: Watch = False,
    every: Every = 10,
    dry_run: DryRun = False,
    yes: Yes = False,
    batch_size: BatchSize = 32,
    device: Device = "auto",
) -> None:
    """Bring an index up to date with a folder of photos: new, changed, moved and vanished ones.

    Photos are compared with those of the last time by size and time, and where these differ by
    content; the first time with those that the index was built from. A photo that was moved or
    renamed keeps its terms and metadata. Photos that cannot be used are listed, and tried again
    when their file changes. Photos are only read.

    If the folder is missing or empty, or more than a fifth of the photos has vanished, nothing is
    changed: the disk may not be mounted. --yes does it.

    For example:

    sparta sync index/ ~/Pictures

    sparta sync index/ ~/Pictures --dry-run

    sparta sync index/ ~/Pictures --watch --every 30
    """
    from sparta.extras import set_up_libraries

    set_up_libraries()
    from indexer.commands.build import STAGES
    from indexer.update.sync import Encoding, PhotoSync
    from sparta.console import Console
    from sparta.progress import progress_bars

    if watch and (dry_run or yes):
        raise InputError("--watch goes with neither --dry-run nor --yes")
    console = Console()
    job = PhotoSync(index, photos, Encoding(model, asked, photo_metadata, batch_size, device))
    with progress_bars(STAGES, console) as show:
        report = job.run(yes=yes, dry=dry_run, progress=show)
    _show(console, index, report, dry_run)
    if watch:
        _watch(console, index, job, every)


def _watch(console: Console, index: Path, job: PhotoSync, every: float) -> None:
    from indexer.update.sync import watch

    _print(console, f"{index}: following {job.place.folder}; Ctrl+C ends it")
    try:
        watch(job, every, lambda one: _show(console, index, one), lambda x: _print(console, x))
    except KeyboardInterrupt:
        _print(console, f"{index}: ended; the next run continues")


def _show(console: Console, index: Path, report: SyncReport, dry: bool = False) -> None:
    from indexer.commands.build import kept_aside

    for skipped in report.skipped[:MOST]:
        _print(console, f"skipped {skipped.image_id}: {skipped.reason}")
    if len(report.skipped) > MOST:
        _print(console, f"skipped {len(report.skipped) - MOST:,} more")
    plan = report.plan
    if dry:
        counts = {
            "to add": len(plan.new),
            "to encode again": len(plan.changed),
            "to move": len(plan.moved),
            "to delete": len(plan.vanished),
        }
    else:
        counts = {
            "added": report.added,
            "encoded again": report.replaced,
            "moved": report.moved,
            "deleted": report.deleted,
        }
    if not any(counts.values()):
        counts = {}
    text = ", ".join(f"{count:,} {name}" for name, count in counts.items()) or "up to date"
    left = f", {len(report.skipped):,} skipped" if report.skipped else ""
    left += kept_aside(report.aside)
    _print(console, f"{index}: {text}{left}; {plan.found:,} photos in the folder")


def _print(console: Console, line: str) -> None:
    console.print(line, soft_wrap=True, highlight=False)
