"""The `import` command."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Literal

import typer

from sparta.features.readers import labels
from sparta.features.readers.base import RegionLimit, Rule
from sparta.features.readers.registry import (
    FORMATS,
    Format,
    detect,
    import_features,
    open_reader,
)

FormatName = Annotated[
    Literal["auto", Format],
    typer.Argument(metavar="FORMAT", help=f"auto (recognise it), {', '.join(FORMATS)}."),
]
Paths = Annotated[list[Path], typer.Argument(help="Feature files, or folders of them.")]
Out = Annotated[Path, typer.Option(help="Folder for the features.")]
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
Regions = Annotated[
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
        f"(default: {labels.ATTRIBUTE_CONFIDENCE}; lxmert and bottom-up-npz: "
        f"{labels.CLASS_ATTRIBUTE_CONFIDENCE}).",
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
    regions: Regions = None,
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
    from sparta.features.record import SKIPPED
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
