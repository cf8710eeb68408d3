"""`sparta captions`."""

from pathlib import Path
from typing import Annotated

import typer

from sparta.errors import InputError


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
    image_key: Annotated[
        str, typer.Option(help="How COCO's and Karpathy's JSON name an image: file, or cocoid.")
    ] = "file",
    image_suffix: Annotated[
        str, typer.Option(help="Appended to each image's id, such as .jpg.")
    ] = "",
    captions_per_photo: Annotated[
        int,
        typer.Option(
            min=1,
            help="Captions of a photo that are used from COCO's and Karpathy's JSON, the first; "
            "and lines of a photo in precomp folders.",
        ),
    ] = 5,
) -> None:
    """Write captions of any format as captions.jsonl, under the image ids that the features have.

    [bold]Examples[/bold]

    sparta captions coco_precomp/ --split train --split dev:1000 --split testall
    --image-suffix .jpg --out captions.jsonl

    sparta captions dataset_coco.json --image-key cocoid --out captions.jsonl

    sparta captions results_20130124.token --out captions.jsonl
    """
    import json

    from rich.console import Console

    from sparta.captions.read import read_captions

    if image_key not in ("file", "cocoid"):
        raise InputError(f"--image-key {image_key!r}: expected file or cocoid")
    if out.suffix != ".jsonl":
        raise InputError(f"--out {out} must be a .jsonl file")
    photos = read_captions(
        source,
        split or None,
        captions_per_photo=captions_per_photo,
        image_key=image_key,  # type: ignore[arg-type]
    )
    lines: dict[str, str] = {}
    for photo in photos:
        image = photo.image_id + image_suffix
        if image in lines:
            raise InputError(f"{source}: image {image!r} is in two of the requested splits")
        line = {"image": image, "split": photo.split, "captions": photo.captions}
        lines[image] = json.dumps(line, ensure_ascii=False)
    out.write_text("".join(line + "\n" for line in lines.values()), encoding="utf-8")
    Console().print(f"{out}: captions of {len(lines):,} images")
