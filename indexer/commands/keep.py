"""`sparta add`, `update`, `delete` and `sync`: the images of an index change."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from indexer.commands.search import reading_filter
from sparta.commands.options import (
    BatchSize,
    Device,
    Exclude,
    FilterText,
    Include,
    IndexFolder,
    ReadPhotos,
    Yes,
    advanced,
)
from sparta.errors import InputError
from sparta.extras import check_installed, set_up_libraries

if TYPE_CHECKING:
    from collections.abc import Sequence

    from indexer.dense.manifest import DenseManifest
    from indexer.update.images import AddReport
    from indexer.update.sync import PhotoSync, SyncReport
    from sparta.console import Console
    from sparta.features.record import Skipped


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
    list[Path] | None,
    typer.Argument(help="Photos, folders of photos, or image embeddings, to add or replace."),
]
Features = Annotated[
    list[Path] | None,
    advanced(
        help="Feature store instead of photos; repeat it for augmentations, the plain one first."
    ),
]
Models = Annotated[
    list[str] | None,
    typer.Option("--model", help="Model of the index, if it has moved. Repeat for several."),
]
FrequenciesFile = Annotated[
    Path | None,
    advanced("--frequencies", help="File of queries, if the index was built with one."),
]
MetadataFile = Annotated[
    Path | None, typer.Option("--metadata", help="Metadata of the photos; see sparta index.")
]
Dense = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[NAME=]MODEL",
        help="Add no images but their embeddings by a dense model, which becomes the backend NAME. "
        "Repeatable.",
    ),
]
Hnsw = Annotated[
    bool, advanced("--hnsw", help="With --dense: an HNSW graph, faster, may miss images.")
]


def add(
    index: IndexFolder,
    photos: NewPhotos = None,
    model: Models = None,
    metadata: MetadataFile = None,
    photo_metadata: ReadPhotos = True,
    include: Include = [],  # noqa: B006
    exclude: Exclude = [],  # noqa: B006
    dense: Dense = None,
    features: Features = None,
    frequencies: FrequenciesFile = None,
    hnsw: Hnsw = False,
    batch_size: BatchSize = 32,
    device: Device = "auto",
) -> None:
    """Add photos to an index, replace photos, or add a dense model.

    Photos in the folder that was indexed have ids relative to it. Other photos have ids relative
    to the folder that you give, or that they are in. The next search finds them, a running
    sparta serve within a second or two. Photos are only read.

    For example:

    sparta add index/ ~/Pictures/2024/beach

    sparta add index/ --features features/ --model model/

    sparta add index/ ~/Pictures --dense vse++/ --dense tuned=runs/7/
    """
    if bool(photos) == bool(features):
        raise InputError("give photos, or feature stores as --features, and not both")
    if dense:
        _add_dense(index, photos or features or [], dense, hnsw, batch_size, device)
        return
    from indexer.commands.build import STAGES

    set_up_libraries()
    from indexer.encoding.features import imported, opened_stores
    from indexer.metadata import imported_metadata, read_metadata
    from indexer.update.images import add_images, models_of
    from indexer.update.sync_plan import choice_of
    from sparta.console import Console
    from sparta.extract.photos import Choice
    from sparta.progress import progress_bars

    about, models = read_metadata(metadata) if metadata else {}, models_of(index, model or ())
    console = Console()
    given, say = Choice(include, exclude), partial(_print, console)
    with (
        progress_bars(STAGES, console) as show,
        imported(photos or features or [], models, index, show) as made,
        opened_stores(
            index,
            (not made and photos) or [],
            made or features or [],
            models,
            device,
            show,
            choice_of=partial(choice_of, index, given=given, notice=say),
            notice=say,
        ) as opened,
    ):
        stores, skipped = opened
        report = add_images(
            index,
            stores,
            models,
            frequencies=frequencies,
            metadata=about if metadata else imported_metadata(stores),
            read_photos=photo_metadata,
            note=bool(photos) and not made,
            batch_size=batch_size,
            device=device,
            progress=show,
        )
    _show_added(console, index, report, skipped)


def _show_added(
    console: Console, index: Path, report: AddReport, skipped: Sequence[Skipped]
) -> None:
    from indexer.commands.build import kept_aside

    for one in skipped:
        _print(console, str(one))
    count = sum(not one.warning for one in skipped)
    left = f", {count:,} skipped" if count else ""
    left += kept_aside(report.aside)
    counts = f"{report.added:,} images added, {report.replaced:,} replaced"
    _print(console, f"{index}: {counts}{left}; {report.images:,} in all")


def _add_dense(
    index: Path, sources: list[Path], models: list[str], hnsw: bool, batch_size: int, device: str
) -> None:
    """Embed the images of an index with dense models."""
    if len(sources) > 1:
        raise InputError("--dense needs one folder of photos, or one feature store")
    check_installed("dense", "faiss", "torch", "transformers")
    set_up_libraries()
    from indexer.commands.build import STAGES
    from indexer.dense.build import add_dense, check_index, check_models, name_models
    from indexer.dense.manifest import FOLDER
    from indexer.encoding.features import opened_stores
    from indexer.engines.open import open_backend
    from indexer.maintenance.copies import renew
    from indexer.update.sync_plan import choice_of
    from sparta.console import Console
    from sparta.extract.photos import DEFAULT
    from sparta.features.store import HEADER
    from sparta.progress import progress_bars

    named = name_models(models)
    check_index(index)
    for name in named:
        renew(index, f"{FOLDER}/{name}")
    stages = {f"embed {name}": (f"Embedding for {name}", "images") for name in named}
    console, noted = Console(), partial(choice_of, index, given=DEFAULT)
    is_store = (sources[0] / HEADER).is_file()
    given = ([], sources) if is_store else (sources, [])
    with (
        progress_bars(STAGES | stages, console) as show,
        opened_stores(
            index,
            *given,
            [*named.values()],
            device,
            show,
            "vse",
            noted,
        ) as ([store], _),
    ):
        check_models(named, store)
        add = partial(add_dense, index, store, batch_size=batch_size, device=device, progress=show)
        kind: Literal["hnsw", "flat"] = "hnsw" if hnsw else "flat"
        added = {name: add(name, path, kind=kind) for name, path in named.items()}
    for name, manifest in added.items():
        missing = open_backend(index, name).missing_images
        left = f"; {missing:,} without" if missing else ""
        _print(console, f"{index}: {_dense_summary(name, manifest)}{left}")


def _dense_summary(name: str, manifest: DenseManifest) -> str:
    views = f" in {manifest.views} views" if manifest.views > 1 else ""
    return (
        f"{name}: vectors of {manifest.images:,} images{views}, {manifest.dimension} numbers "
        f"each, {manifest.kind}"
    )


Changes = Annotated[
    Path,
    typer.Argument(
        metavar="METADATA",
        help="JSON Lines, CSV or Parquet with the image's id as the field image.",
    ),
]


def update(index: IndexFolder, metadata: Changes) -> None:
    """Change metadata of images, without encoding them again.

    Given fields replace those of the same name, the others stay. In JSON Lines null removes a
    field; an empty cell of a table changes nothing.

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
FEW = 10  # images that a filter may delete without a question


def delete(
    index: IndexFolder, ids: Ids = None, filter_text: FilterText = None, yes: Yes = False
) -> None:
    """Delete images from an index: those with some ids, or all that match a filter.

    If one id is unknown, nothing is deleted. The photos stay where they are.

    For example:

    sparta delete index/ "beach/two dogs.jpg" 2023/b.jpg

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
Every = Annotated[float, advanced(min=0.1, help="With --watch: seconds between two looks.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Count what would be done, and end.")]
MOST = 20  # photos listed one by one


def sync(
    index: IndexFolder,
    photos: Photos,
    model: Models = None,
    photo_metadata: ReadPhotos = True,
    include: Include = [],  # noqa: B006
    exclude: Exclude = [],  # noqa: B006
    watch: Watch = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    every: Every = 10,
    frequencies: FrequenciesFile = None,
    batch_size: BatchSize = 32,
    device: Device = "auto",
) -> None:
    """Update an index to match a folder: new, changed, moved and deleted photos.

    A moved or renamed photo keeps its terms and metadata. Unusable photos are listed, and tried
    again when their file changes. If the folder is missing or empty, or more than a fifth of the
    photos is gone, the disk may not be mounted: sync changes nothing, unless you pass --yes.
    Photos are only read.

    For example:

    sparta sync index/ ~/Pictures --dry-run

    sparta sync index/ ~/Pictures --watch --every 30
    """
    set_up_libraries()
    from indexer.commands.build import STAGES
    from indexer.maintenance.info import is_rebuild_due
    from indexer.update.images import models_of
    from indexer.update.sync import Encoding, PhotoSync
    from sparta.console import Console
    from sparta.extract.photos import Choice
    from sparta.progress import progress_bars

    if watch and (dry_run or yes):
        raise InputError("--watch goes with neither --dry-run nor --yes")
    console = Console()
    models = models_of(index, model or ())
    how = Encoding(models, frequencies, photo_metadata, batch_size, device)
    job = PhotoSync(index, photos, how, Choice(include, exclude), partial(_print, console))
    with progress_bars(STAGES, console) as show:
        report = job.run(yes=yes, dry=dry_run, progress=show)
    _show(console, index, report, dry_run)
    if report.did and is_rebuild_due(index):
        _print(console, f"{index}: the photos differ from the build's: a rebuild is worth it")
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
    from sparta.extract.photos import passed_over

    for skipped in report.skipped[:MOST]:
        _print(console, str(skipped))
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
    if described := len(plan.described) if dry else report.described:
        counts["to describe again" if dry else "described again"] = described
    if not any(counts.values()):
        counts = {}
    text = ", ".join(f"{count:,} {name}" for name, count in counts.items()) or "up to date"
    count = sum(not one.warning for one in report.skipped)
    left = f", {count:,} skipped" if count else ""
    left += kept_aside(report.aside)
    _print(console, f"{index}: {text}{left}; {plan.found:,} photos in the folder")
    if report.left_out:
        which = f"{report.left_out:,} of the deleted are left out by name or pattern"
        _print(console, f"{index}: {which}; their photos are still in the folder")
    if report.passed:
        _print(console, f"{index}: {passed_over(report.passed)}")


def _print(console: Console, line: str) -> None:
    console.print(line, soft_wrap=True, highlight=False)
