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
