"""The command `sparta publish`."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sparta.commands.options import IndexFolder, Photos

if TYPE_CHECKING:
    from server.publish.publishing import Choices, Report

STAGES = {
    "columns": ("Building columns", "images"),
    "terms": ("Reading postings", "terms"),
    "photos": ("Writing pictures", "photos"),
    "records": ("Writing images", "images"),
}
SHOWN = 5  # ids of photos that are missing

Out = Annotated[
    Path, typer.Option(help="Folder of the site: missing, empty, or a site published before.")
]
NoPhotos = Annotated[bool, typer.Option("--no-photos", help="Publish no pictures.")]
Sizes = Annotated[
    list[int],
    typer.Option(
        "--size", min=16, max=8192, help="Longer side of the pictures in pixels; repeatable."
    ),
]
Format = Annotated[str, typer.Option(help="Of the pictures: webp or avif.")]
Originals = Annotated[
    bool, typer.Option("--originals", help="Publish the photos' files, too, without metadata.")
]
Exif = Annotated[
    bool,
    typer.Option("--keep-exif", help="With --originals, leave in the files what they say (GPS!)."),
]
Fields = Annotated[
    list[str] | None,
    typer.Option(
        "--field",
        help="A field of the metadata to publish, such as taken; repeatable. By default none is.",
    ),
]
HashIds = Annotated[
    str | None,
    typer.Option(
        metavar="KEY",
        help="Publish ids, which are paths, as hashes under this key, which you keep.",
    ),
]
Examples = Annotated[list[str] | None, typer.Option("--example", help="A query to offer.")]
BaseUrl = Annotated[
    str | None, typer.Option(help="Where the site will be, for search engines and link previews.")
]


def publish(
    index: IndexFolder,
    out: Out,
    photos: Photos = None,
    no_photos: NoPhotos = False,
    sizes: Sizes = [512, 1280],  # noqa: B006  # typer copies it
    format: Format = "webp",
    originals: Originals = False,
    keep_exif: Exif = False,
    fields: Fields = None,
    hash_ids: HashIds = None,
    examples: Examples = None,
    base_url: BaseUrl = None,
) -> None:
    """Write a site that searches an index without a server: plain files for any host.

    The page is that of sparta serve, and so are its answers; the search runs in the browser.
    Written again, only files that changed are.

    For example:

    sparta publish index/ --out site/ && python -m http.server -d site
    """
    from server.publish.photos import FORMATS, Pictures
    from server.publish.publishing import Choices, publish
    from sparta.console import Console
    from sparta.errors import InputError
    from sparta.progress import progress_bars

    if format not in FORMATS:
        raise InputError(f"--format must be one of {', '.join(FORMATS)}, got {format!r}")
    if keep_exif and not originals:
        raise InputError("--keep-exif is about --originals: pictures never have EXIF")
    pictures = Pictures(tuple(sorted(set(sizes))), format, originals, keep_exif)
    choices = Choices(
        photos,
        None if no_photos else pictures,
        tuple(fields or ()),
        hash_ids,
        tuple(examples or ()),
        base_url,
    )
    with progress_bars(STAGES, Console(stderr=True)) as progress:
        report = publish(index, out, choices, progress)
    for line in _lines(out, choices, report):
        typer.echo(line)


def _lines(out: Path, choices: Choices, report: Report) -> list[str]:
    """What was published, in words."""
    pictures = choices.pictures
    sizes = Counter[str]()
    for path, size in report.sizes.items():
        sizes[path.partition("/")[0] if "/" in path else "page"] += size
    rooms = ", ".join(f"{name} {size / 1e6:,.1f} MB" for name, size in sorted(sizes.items()))
    lines = [
        f"{out}: {report.images:,} images, {len(report.sizes):,} files ({rooms})",
        f"written: {len(report.rewritten):,} files, removed: {len(report.removed):,}",
        f"ids: {'paths of the photos' if choices.id_key is None else 'hashes under your key'}",
        f"metadata: {', '.join(['width', 'height', *choices.fields])}; "
        f"withheld: {', '.join(report.withheld) or 'nothing'}",
    ]
    if pictures is None:
        return [*lines, "photos: none"]
    exif = "with" if pictures.exif else "without"
    originals = f", and the files {exif} EXIF" if pictures.originals else ""
    wide = ", ".join(f"{size}" for size in pictures.sizes)
    lines.append(f"photos: pictures of {wide} pixels without EXIF{originals}")
    if lacking := report.skipped:
        shown = "; ".join(f"{one.image_id}: {one.reason}" for one in lacking[:SHOWN])
        more = "; …" if len(lacking) > SHOWN else ""
        lines.append(f"{len(lacking):,} photos are missing or damaged: {shown}{more}")
    return lines
