"""The `extract` command."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sparta.addresses import folder_at
from sparta.cluster import connected
from sparta.commands.options import Ray
from sparta.errors import InputError
from sparta.features.readers.registry import fitting
from sparta.features.record import REGIONS, DetectorSettings
from sparta.libraries import set_up_libraries

if TYPE_CHECKING:
    from sparta.features.extract.job import ExtractReport

Photos = Annotated[
    str,
    typer.Argument(
        help="Folder of photos, searched at any depth, or its address (s3://bucket/photos)."
    ),
]
Out = Annotated[Path, typer.Option(help="Folder for the features.")]
Backbone = Annotated[
    str | None,
    typer.Option(
        help="Hub name or folder of a vision network, efficientnet-lite0, -lite1, -lite2 or "
        "-lite2-photos (no hub needed), a tuned one's .safetensors, or pixels."
    ),
]
Detector = Annotated[
    str | None,
    typer.Option(
        help="Hub name or folder of an object detector (DETR, RT-DETR, YOLOS, …): regions are its "
        "detections, their vectors its own or, with --backbone, pooled over the boxes."
    ),
]
Regions = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="With --detector: highest-confidence regions an image keeps, besides the whole photo "
        f"(default: {REGIONS}).",
    ),
]
Threshold = Annotated[
    float, typer.Option(min=0, max=1, help="With --detector: minimum confidence of a region.")
]
Colours = Annotated[
    bool, typer.Option("--colours", help="With --detector: name each region's colour.")
]
ImageSize = Annotated[
    int | None,
    typer.Option(
        min=16, help="Side of the square that photos are resized to (default: the backbone's)."
    ),
]
Labels = Annotated[
    int, typer.Option(min=0, help="Classes of the backbone's classifier to keep as words.")
]
Grid = Annotated[
    int | None,
    typer.Option(min=1, help="Average the backbone's cells to N on a side (default: all cells)."),
]
Augmentation = Annotated[
    str, typer.Option(help="Test-time augmentation: plain, flip (mirrored) or crop:SEED.")
]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, …")]
BatchSize = Annotated[int | None, typer.Option(min=1, help="Photos per pass (default: by device).")]
Workers = Annotated[
    int | None, typer.Option(min=0, help="Decoding processes, 0 for none (default: one a core).")
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
    batch_size: BatchSize = None,
    workers: Workers = None,
    ray: Ray = None,
) -> None:
    """Turn a folder of photos into image features.

    Photos that cannot be decoded are skipped and listed in OUT/skipped.jsonl. An interrupted run
    continues when it is started again. When photos were added, replaced or removed since, features
    of the others are kept. Features of other software: sparta import.

    For example:

    sparta extract photos/ --backbone google/mobilenet_v2_1.0_224 --labels 3 --out features/

    sparta extract photos/ --backbone efficientnet-lite2 --grid 7 --out features/

    sparta extract photos/ --backbone pixels --augmentation flip --out features/flip

    sparta extract photos/ --detector PekingU/rtdetr_r50vd --colours --out features/

    sparta extract photos/ --detector hustvl/yolos-tiny --backbone microsoft/resnet-50 --out pooled/

    sparta extract photos/ --backbone efficientnet-lite2 --out features/ --ray 10.0.0.1:6379

    sparta extract s3://bucket/photos --backbone efficientnet-lite2 --out features/ --ray auto
    """
    detection = _detection(detector, regions, threshold, colours)
    if backbone is None and detection is None:
        raise _nothing_to_extract_with(photos)
    set_up_libraries()
    from sparta.console import Console
    from sparta.features.extract.job import EXTRACT_STAGES, extract_photos
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
    from sparta.features.record import skipped_summary

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
