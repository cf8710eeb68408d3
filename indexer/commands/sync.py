"""`sparta sync`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from indexer.commands.options import BatchSize, Device, IndexFolder, ReadPhotos, Yes
from sparta.errors import InputError

if TYPE_CHECKING:
    from indexer.update.sync.job import PhotoSync, SyncReport
    from sparta.console import Console

Photos = Annotated[Path, typer.Argument(help="Folder of photos, searched at any depth.")]
Models = Annotated[
    list[str],
    typer.Option("--model", help="The model that the index was built with. Repeat for several."),
]
AskedFile = Annotated[
    Path | None,
    typer.Option("--asked", help="The file of queries, if the index was built with one."),
]
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
    from indexer.commands.building import STAGES
    from indexer.update.sync.job import Encoding, PhotoSync
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
    from indexer.update.sync.watch import watch

    _print(console, f"{index}: following {job.place.folder}; Ctrl+C ends it")
    try:
        watch(job, every, lambda one: _show(console, index, one), lambda x: _print(console, x))
    except KeyboardInterrupt:
        _print(console, f"{index}: ended; the next run continues")


def _show(console: Console, index: Path, report: SyncReport, dry: bool = False) -> None:
    from indexer.commands.building import kept_aside

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
