"""`sparta extract`, `import` and `captions`: what models and indexes are made of."""

from __future__ import annotations

import os
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from sparta.addresses import folder_at
from sparta.cluster import connected
from sparta.commands.options import Device, Ray, advanced
from sparta.errors import InputError
from sparta.extras import set_up_libraries
from sparta.features.record import REGIONS, SKIPPED, DetectorSettings, skipped_summary
from sparta.readers import labels as found_labels
from sparta.readers.base import RegionLimit, Rule
from sparta.readers.registry import (
    FORMATS,
    Format,
    detect,
    fitting,
    import_features,
    open_reader,
)

if TYPE_CHECKING:
    from sparta.extract.job import ExtractReport

Photos = Annotated[
    str, typer.Argument(help="Folder of photos, or its address (s3://bucket/photos).")
]
Out = Annotated[Path, typer.Option(help="Folder for the features.")]
Backbone = Annotated[
    str | None,
    typer.Option(
        help="Vision network: hub name, folder, efficientnet-lite0, -lite1, -lite2 or "
        "-lite2-photos (no hub needed), a tuned one's .safetensors, or pixels."
    ),
]
Detector = Annotated[
    str | None,
    typer.Option(
        help="Object detector (DETR, RT-DETR, YOLOS, …): hub name or folder. Regions are its "
        "detections, with its vectors or those of --backbone pooled over the boxes."
    ),
]
Regions = Annotated[
    int | None,
    typer.Option(
        min=1, help=f"Maximum number of regions of an image, besides the whole photo ({REGIONS})."
    ),
]
Threshold = Annotated[
    float, advanced(min=0, max=1, help="Minimum confidence of a detected region.")
]
Colours = Annotated[bool, advanced("--colours", help="Name each detected region's colour.")]
ImageSize = Annotated[
    int | None, advanced(min=16, help="Side of the resized photos (default: the backbone's).")
]
Labels = Annotated[int, advanced(min=0, help="Classes of the backbone's classifier to keep.")]
Grid = Annotated[int | None, advanced(min=1, help="Average the backbone's cells to N on a side.")]
Augmentation = Annotated[
    str, advanced(help="Test-time augmentation: plain, flip (mirrored) or crop:SEED.")
]
PhotosAtOnce = Annotated[
    int | None, advanced("--batch-size", min=1, help="Images per pass of a model.")
]
Workers = Annotated[
    int | None, advanced(min=0, help="Processes that decode, 0 for none (default: one a core).")
]


def extract(
    photos: Photos,
    out: Out,
    backbone: Backbone = None,
    detector: Detector = None,
    regions: Regions = None,
    threshold: Threshold = 0.05,
    colours: Colours = False,
    image_size: ImageSize = None,
    labels: Labels = 0,
    grid: Grid = None,
    augmentation: Augmentation = "plain",
    device: Device = "auto",
    batch_size: PhotosAtOnce = None,
    workers: Workers = None,
    ray: Ray = None,
) -> None:
    """Turn a folder of photos into image features.

    Lists photos that cannot be decoded in OUT/skipped.jsonl. A repeated run extracts only new and
    changed photos; an interrupted one continues.

    For example:

    sparta extract photos/ --backbone google/mobilenet_v2_1.0_224 --labels 3 --out features/

    sparta extract photos/ --detector PekingU/rtdetr_r50vd --colours --out features/

    sparta extract s3://bucket/photos --backbone efficientnet-lite2 --out features/ --ray auto
    """
    detection = _detection(detector, regions, threshold, colours)
    if backbone is None and detection is None:
        raise _nothing_to_extract_with(photos)
    set_up_libraries()
    from sparta.console import Console
    from sparta.extract.job import EXTRACT_STAGES, extract_photos
    from sparta.progress import progress_bars

    console = Console()
    with connected(ray, device) as cluster, progress_bars(EXTRACT_STAGES, console) as progress:
        report = extract_photos(
            folder_at(photos),
            out,
            backbone,
            detection=detection,
            image_size=image_size,
            labels=labels,
            grid=grid,
            augmentation=augmentation,
            device=device,
            batch_size=batch_size,
            workers=workers,
            cluster=cluster,
            progress=progress,
            notice=partial(console.print, soft_wrap=True, highlight=False),
        )
    _print(report, out)


def _detection(
    detector: str | None, regions: int | None, threshold: float, colours: bool
) -> DetectorSettings | None:
    if detector is not None:
        return DetectorSettings(detector, regions or REGIONS, threshold, colours)
    if regions or colours:
        raise InputError("--regions and --colours need --detector")
    return None


def _nothing_to_extract_with(photos: str) -> InputError:
    use = (
        " or ".join(f"sparta import {name}" for name in fitting([Path(photos)])) or "sparta import"
    )
    return InputError(
        "--backbone or --detector: name what turns the photos into features (features of other "
        f"software: {use})"
    )


def _print(report: ExtractReport, out: Path) -> None:
    from sparta.console import Console

    console = Console()
    new = report.images + report.skipped - report.reused
    if not new:
        console.print(f"{out} is already complete: {report.images} images")
    else:
        rate = new / report.seconds
        console.print(
            f"{out}: {report.images} images, {new} photos in {report.seconds:.1f} s "
            f"({rate:.0f} photos/s)"
        )
    if skipped := skipped_summary(out):
        console.print(skipped, soft_wrap=True)


# ---- import --------------------------------------------------------------------------------------

FormatName = Annotated[
    Literal["auto", "immich", Format],
    typer.Argument(
        metavar="FORMAT", help=f"auto (recognise it), {', '.join(FORMATS)}, or immich: photos."
    ),
]
Paths = Annotated[
    list[str], typer.Argument(help="Feature files or folders; the address of an immich server.")
]
Name = Annotated[
    str | None, advanced(help="Name of what made the features (default: the format's).")
]
ImageSuffix = Annotated[
    str, typer.Option(help="Appended to each key to make the image id, such as .jpg.")
]
Split = Annotated[
    list[str] | None,
    typer.Option(help="Split to read; repeatable. precomp: dev:1000 is dev's first 1,000 images."),
]
Limit = Annotated[int | None, typer.Option(min=1, help="Maximum number of regions of an image.")]
Keep = Annotated[
    Rule, advanced(help="Regions that --regions keeps: first, or confident (highest confidence).")
]
Attributes = Annotated[
    float | None,
    advanced(
        min=0,
        max=1,
        help="Minimum confidence of a region's attributes (default: "
        f"{found_labels.ATTRIBUTE_CONFIDENCE}; lxmert and bottom-up-npz: "
        f"{found_labels.CLASS_ATTRIBUTE_CONFIDENCE}).",
    ),
]
Classes = Annotated[
    Path | None,
    typer.Option(
        help="lxmert, bottom-up-npz: folder with objects_vocab.txt and attributes_vocab.txt."
    ),
]
SkipBad = Annotated[
    bool,
    typer.Option("--skip-bad", help="Skip malformed images and list them in OUT/skipped.jsonl."),
]
Originals = Annotated[
    bool, typer.Option("--originals", help="immich: original files instead of previews.")
]


def import_(
    format_name: FormatName,
    paths: Paths,
    out: Out,
    name: Name = None,
    image_suffix: ImageSuffix = "",
    split: Split = None,
    regions: Limit = None,
    keep: Keep = "first",
    attributes: Attributes = None,
    classes: Classes = None,
    skip_bad: SkipBad = False,
    originals: Originals = False,
) -> None:
    """Convert features of other software, or download the photos of an immich library.

    A malformed image ends the import of features, unless you pass --skip-bad. For immich set
    IMMICH_API_KEY to a key with the permissions asset.read and asset.view, for --originals also
    asset.download; OUT gets photos/ and metadata.jsonl. A repeated download fetches what is new or
    changed, and deletes what immich has no more. An interrupted import continues.

    For example:

    sparta import vinvl train/ val/ --image-suffix .jpg --out features/

    sparta import auto coco/ --regions 50 --keep confident --skip-bad --out features/

    sparta import precomp coco_precomp/ --split train --split dev:1000 --out features/

    sparta import immich http://localhost:2283 --out immich
    """
    if format_name == "immich":
        _import_immich(paths, out, originals)
        return
    from sparta.console import Console
    from sparta.progress import progress_bars

    files = [Path(path) for path in paths]
    known = detect(files) if format_name == "auto" else format_name
    limit = RegionLimit(regions, keep, attributes)
    reader = open_reader(known, files, split or (), image_suffix, name, limit, classes)
    console, started = Console(), time.perf_counter()
    with progress_bars({"import": ("Importing", "images")}, console) as progress:
        store = import_features(reader, out, progress, skip_bad)
    console.print(f"{out}: {len(store)} images in {time.perf_counter() - started:.1f} s")
    if skipped := len(reader.ids) - len(store):
        console.print(f"{skipped} images could not be used: see {out / SKIPPED}")
    if FORMATS[known].numbered and classes is None:
        console.print("Regions have no labels: --classes names them.")


def _import_immich(addresses: list[str], out: Path, originals: bool) -> None:
    from sparta.console import Console
    from sparta.immich import Library, download
    from sparta.progress import progress_bars

    if len(addresses) != 1:
        raise InputError("immich: give the address of one server")
    # Other users of this machine see options, but not the environment.
    if not (api_key := os.environ.get("IMMICH_API_KEY")):
        raise InputError("set IMMICH_API_KEY to an API key of immich: see docs/features.md")
    console = Console()
    stages = {"download": ("Downloading photos", "photos")}
    with Library(addresses[0], api_key) as library, progress_bars(stages, console) as show:
        done = download(library, out, originals, show)
    line = f"{out}: {done.photos:,} photos, {done.new:,} downloaded, {done.removed:,} removed"
    if done.skipped:
        line += f"; {len(done.skipped):,} could not be used: see {out / SKIPPED}"
    console.print(line, soft_wrap=True, highlight=False)


# ---- captions ------------------------------------------------------------------------------------


def captions(
    source: Annotated[
        Path,
        typer.Argument(
            help="JSON of COCO or Karpathy, a token file of Flickr8k or Flickr30k, Kaggle's "
            "captions.txt or results.csv, a precomp or HGR folder, or a .jsonl."
        ),
    ],
    out: Annotated[Path, typer.Option(help="File to write, a .jsonl.")],
    split: Split = None,
) -> None:
    """Write captions of any format as captions.jsonl.

    For example:

    sparta captions dataset_coco.json --out captions.jsonl

    sparta captions coco_precomp/ --split train --split dev:1000 --out captions.jsonl
    """
    import json

    from sparta.captions.read import read_captions
    from sparta.console import Console

    if out.suffix != ".jsonl":
        raise InputError(f"--out {out} must be a .jsonl file")
    lines: dict[str, str] = {}
    for photo in read_captions(source, split or None):
        if photo.image_id in lines:
            raise InputError(
                f"{source}: image {photo.image_id!r} is in two of the requested splits"
            )
        line = {"image": photo.image_id, "split": photo.split, "captions": photo.captions}
        lines[photo.image_id] = json.dumps(line, ensure_ascii=False)
    out.write_text("".join(line + "\n" for line in lines.values()), encoding="utf-8")
    Console().print(f"{out}: captions of {len(lines):,} images")
