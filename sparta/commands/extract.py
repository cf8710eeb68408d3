"""The `extract` command."""

import os
import time
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from sparta.errors import InputError
from sparta.features.extract.detector_settings import REGIONS, Detection
from sparta.features.readers.base import FeatureReader
from sparta.features.readers.convert import convert
from sparta.features.readers.parsing.region_limit import RegionLimit, Rule
from sparta.features.readers.registry import FORMATS, Format, detect, fitting, open_reader


def extract(
    folders: Annotated[
        list[Path],
        typer.Argument(
            help="Folder of photos, searched at any depth; with --from, folders or files with "
            "features."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder for the features.")],
    backbone: Annotated[
        str | None,
        typer.Option(
            help="Hub name or folder of a vision network, or: pixels. With --from, a name for what "
            "made the features (default: the format's)."
        ),
    ] = None,
    detector: Annotated[
        str | None,
        typer.Option(
            help="Hub name or folder of an object detector (DETR, RT-DETR, YOLOS, …): regions are "
            "where it finds something, their vectors its own or, with --backbone, pooled."
        ),
    ] = None,
    threshold: Annotated[
        float,
        typer.Option(min=0, max=1, help="With --detector: confidence a region needs."),
    ] = 0.05,
    colours: Annotated[
        bool, typer.Option("--colours", help="With --detector: name each region's colour.")
    ] = False,
    from_format: Annotated[
        Literal["auto", Format] | None,
        typer.Option(
            "--from",
            help="Take features others extracted, in files of this format; auto: see which it is.",
        ),
    ] = None,
    image_suffix: Annotated[
        str, typer.Option(help="With --from: put behind each key to make the image id (.jpg).")
    ] = "",
    split: Annotated[
        list[str] | None,
        typer.Option(
            help="With --from precomp or hgr: splits to take; may be given again. dev:1000 takes "
            "the first 1,000 images (precomp)."
        ),
    ] = None,
    regions: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="With --from or --detector: regions an image keeps (default: all with --from, "
            "the 36 surest and the whole photo with --detector).",
        ),
    ] = None,
    keep: Annotated[
        Rule,
        typer.Option(help="With --from: the first regions of each image, or the surest."),
    ] = "first",
    vocabulary: Annotated[
        Path | None,
        typer.Option(
            help="With --from lxmert or bottom-up-npz: folder with objects_vocab.txt and "
            "attributes_vocab.txt (default: regions have no labels)."
        ),
    ] = None,
    skip_bad: Annotated[
        bool,
        typer.Option(
            "--skip-bad",
            help="With --from: leave out malformed images and list them in OUT/skipped.jsonl.",
        ),
    ] = False,
    image_size: Annotated[
        int | None,
        typer.Option(
            min=16, help="Side of the square photos are stretched to (default: the backbone's)."
        ),
    ] = None,
    labels: Annotated[
        int, typer.Option(min=0, help="Classes of the backbone's classifier to keep as words.")
    ] = 0,
    view: Annotated[str, typer.Option(help="plain, flip (mirrored) or crop:SEED.")] = "plain",
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, …")] = "auto",
    batch_size: Annotated[
        int | None, typer.Option(min=1, help="Photos per pass (default: by device).")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=0, help="Decoding processes, 0 for none (default: cores - 1).")
    ] = None,
) -> None:
    """Turn a folder of photos, or features others extracted, into image features.

    Photos that cannot be used are skipped and listed in OUT/skipped.jsonl. A malformed image in
    files of others ends the run, or is skipped and listed likewise with --skip-bad.
    An interrupted run continues when started again.

    [bold]Examples[/bold]

    sparta extract photos/ --backbone google/mobilenet_v2_1.0_224 --labels 3 --out features/

    sparta extract photos/ --backbone pixels --out features/

    sparta extract photos/ --detector PekingU/rtdetr_r50vd --colours --out features/

    sparta extract photos/ --detector hustvl/yolos-tiny --backbone microsoft/resnet-50 --out pooled/

    sparta extract --from vinvl train/ val/ --image-suffix .jpg --out features/

    sparta extract --from auto coco/ --regions 50 --keep confident --skip-bad --out features/

    sparta extract --from oscar-pt coco_ir/test_img_frcnn_feats.pt --out features/

    sparta extract --from oscar-captioning coco_caption/train.yaml --out features/

    sparta extract --from scene-graph predictions.tsv test.hw.tsv --out features/

    sparta extract --from bottom-up trainval_36.tsv --out features/

    sparta extract --from lxmert train2014_obj36.tsv --vocabulary genome/ --out features/

    sparta extract --from bottom-up-npz train2014/ --image-suffix .jpg --out features/

    sparta extract --from precomp coco_precomp/ --split train --split dev:1000 --out features/

    sparta extract --from hgr MSRVTT/ordered_feature/SA/resnet152.pth --split trn --out features/
    """
    if from_format is not None:
        if image_size or labels or view != "plain" or detector or colours:
            raise InputError(
                "--detector, --colours, --image-size, --labels and --view are for photos, not for "
                "--from"
            )
        name = detect(folders) if from_format == "auto" else from_format
        choice = RegionLimit(regions, keep)
        reader = open_reader(name, folders, split or (), image_suffix, backbone, choice, vocabulary)
        _convert(reader, out, skip_bad)
        if FORMATS[name].numbered and vocabulary is None:
            typer.echo("Regions have no labels: their numbers become words with --vocabulary.")
        return
    if backbone is None and detector is None:
        use = " or ".join(f"--from {name}" for name in fitting(folders)) or "use --from"
        raise InputError(f"--backbone: name what turns the photos into features (or {use})")
    if detector is None and (regions or colours):
        raise InputError("--regions needs --detector or --from, --colours needs --detector")
    chosen = keep != "first" or vocabulary
    if len(folders) > 1 or image_suffix or split or chosen or skip_bad:
        raise InputError(
            "several folders, --image-suffix, --split, --keep, --vocabulary and --skip-bad need "
            "--from"
        )
    _extract(
        folders[0],
        out,
        backbone,
        Detection(detector, regions or REGIONS, threshold, colours) if detector else None,
        image_size=image_size,
        labels=labels,
        view=view,
        device=device,
        batch_size=batch_size,
        workers=workers,
    )


def _extract(
    photos: Path, out: Path, backbone: str | None, detection: Detection | None, **settings: Any
) -> None:
    # Read when torch is loaded. By default its threads spin while they wait for each other, and
    # where the decoding workers need the cores too, a run may take twenty times as long.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from rich.console import Console
    from transformers.utils import logging

    from sparta.features.extract.job import extract_photos
    from sparta.features.skipped import SKIPPED
    from sparta.progress import progress_bars

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    console = Console()
    with progress_bars({"extract": ("Extracting", "photos")}, console) as show:
        report = extract_photos(
            photos,
            out,
            backbone,
            detection=detection,
            progress=show,
            **settings,
        )
    new = report.images + report.skipped - report.reused
    if not new:
        console.print(f"{out} is already complete: {report.images} images")
    else:
        rate = new / report.seconds
        console.print(
            f"{out}: {report.images} images, {new} photos in {report.seconds:.1f} s "
            f"({rate:.0f} photos/s)"
        )
    if report.skipped:
        console.print(f"{report.skipped} photos could not be used: see {out / SKIPPED}")


def _convert(reader: FeatureReader, out: Path, skip_bad: bool) -> None:
    from rich.console import Console

    from sparta.features.skipped import SKIPPED
    from sparta.progress import progress_bars

    console = Console()
    started = time.perf_counter()
    with progress_bars({"import": ("Importing", "images")}, console) as show:
        store = convert(reader, out, show, skip_bad)
    console.print(f"{out}: {len(store)} images in {time.perf_counter() - started:.1f} s")
    if skipped := len(reader.ids) - len(store):
        console.print(f"{skipped} images could not be used: see {out / SKIPPED}")
