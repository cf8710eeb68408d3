"""The commands that make features, and what goes with them: extract, import, captions, immich."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from sparta.addresses import folder_at
from sparta.cluster import connected
from sparta.commands.options import Ray
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
    Literal["auto", Format],
    typer.Argument(metavar="FORMAT", help=f"auto (recognise it), {', '.join(FORMATS)}."),
]
Paths = Annotated[list[Path], typer.Argument(help="Feature files, or folders of them.")]
Name = Annotated[
    str | None, typer.Option(help="Name of what made the features (default: the format's).")
]
ImageSuffix = Annotated[
    str, typer.Option(help="Appended to each key to make the image id, such as .jpg.")
]
Split = Annotated[
    list[str] | None,
    typer.Option(
        help="precomp, hgr: a split to import; may be repeated. dev:1000 is the first 1,000 "
        "images of dev (precomp)."
    ),
]
Limit = Annotated[
    int | None, typer.Option(min=1, help="Regions an image keeps at most (default: all).")
]
Keep = Annotated[
    Rule,
    typer.Option(help="Which regions --regions keeps: the first, or those of highest confidence."),
]
Attributes = Annotated[
    float | None,
    typer.Option(
        min=0,
        max=1,
        help="Confidence above which a region's attributes are kept, where the files have it "
        f"(default: {found_labels.ATTRIBUTE_CONFIDENCE}; lxmert and bottom-up-npz: "
        f"{found_labels.CLASS_ATTRIBUTE_CONFIDENCE}).",
    ),
]
Vocabulary = Annotated[
    Path | None,
    typer.Option(
        help="lxmert, bottom-up-npz: folder with objects_vocab.txt and attributes_vocab.txt "
        "(default: regions have no labels)."
    ),
]
SkipBad = Annotated[
    bool,
    typer.Option("--skip-bad", help="Skip malformed images and list them in OUT/skipped.jsonl."),
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
    vocabulary: Vocabulary = None,
    skip_bad: SkipBad = False,
) -> None:
    """Convert features extracted by other software into image features.

    A malformed image ends the run, or is skipped with --skip-bad. An interrupted run continues
    when it is started again.

    For example:

    sparta import vinvl train/ val/ --image-suffix .jpg --out features/

    sparta import auto coco/ --regions 50 --keep confident --skip-bad --out features/

    sparta import oscar-pt coco_ir/test_img_frcnn_feats.pt --out features/

    sparta import oscar-captioning coco_caption/train.yaml --out features/

    sparta import scene-graph predictions.tsv test.hw.tsv --out features/

    sparta import bottom-up trainval_36.tsv --out features/

    sparta import lxmert train2014_obj36.tsv --vocabulary genome/ --out features/

    sparta import bottom-up-npz train2014/ --image-suffix .jpg --out features/

    sparta import precomp coco_precomp/ --split train --split dev:1000 --out features/

    sparta import hgr MSRVTT/ordered_feature/SA/resnet152.pth --split trn --out features/
    """
    from sparta.console import Console
    from sparta.progress import progress_bars

    known = detect(paths) if format_name == "auto" else format_name
    limit = RegionLimit(regions, keep, attributes)
    reader = open_reader(known, paths, split or (), image_suffix, name, limit, vocabulary)
    console, started = Console(), time.perf_counter()
    with progress_bars({"import": ("Importing", "images")}, console) as progress:
        store = import_features(reader, out, progress, skip_bad)
    console.print(f"{out}: {len(store)} images in {time.perf_counter() - started:.1f} s")
    if skipped := len(reader.ids) - len(store):
        console.print(f"{skipped} images could not be used: see {out / SKIPPED}")
    if FORMATS[known].numbered and vocabulary is None:
        console.print("Regions have no labels: --vocabulary names the classes.")


# ---- import-immich -------------------------------------------------------------------------------

Address = Annotated[str, typer.Argument(metavar="URL", help="Address of the immich server.")]
LibraryOut = Annotated[Path, typer.Option(help="Folder for the photos and their metadata.")]
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
    address: Address, out: LibraryOut, api_key: Key = None, originals: Originals = False
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
    from sparta.immich import Library, download
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


# ---- captions ------------------------------------------------------------------------------------


def captions(
    source: Annotated[
        Path,
        typer.Argument(
            help="COCO's or Karpathy's JSON, a token file of Flickr8k or Flickr30k, Kaggle's "
            "captions.txt or results.csv, a precomp or HGR folder, or a .jsonl."
        ),
    ],
    out: Annotated[Path, typer.Option(help="File to write, a .jsonl.")],
    split: Annotated[
        list[str] | None,
        typer.Option(
            help="A split to read (default: all); may be repeated. dev:1000 is the first 1,000 "
            "images of dev (precomp); restval (Karpathy) is part of train unless it is named."
        ),
    ] = None,
) -> None:
    """Write captions of any format as captions.jsonl.

    For example:

    sparta captions coco_precomp/ --split train --split dev:1000 --split testall
    --out captions.jsonl

    sparta captions dataset_coco.json --out captions.jsonl

    sparta captions results_20130124.token --out captions.jsonl
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
