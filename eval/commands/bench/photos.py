"""`sparta bench photos`."""

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from eval.commands.options import AsJson, Out, check_out
from sparta.errors import InputError

Photos = Annotated[
    Path | None, typer.Argument(help="Folder of photos (default: photos are drawn).")
]
ModelName = Annotated[str, typer.Option(help="VisualSparta model: folder or name.")]
Sizes = Annotated[str, typer.Option(help="Sizes of the drawn photos in pixels.")]
Count = Annotated[int, typer.Option(min=1, help="Photos of each size.")]
Cores = Annotated[
    int | None, typer.Option(min=1, help="Cores to use (default: all; others on Linux alone).")
]
TopN = Annotated[
    str | None, typer.Option(help="Terms an image keeps (default: that of sparta index).")
]
Work = Annotated[
    Path | None, typer.Option(help="Folder for temporary files (default: the system's).")
]


def photos(
    context: typer.Context,
    photos: Photos = None,
    model: ModelName = "photos",
    sizes: Sizes = "500x375,4000x3000",
    count: Count = 1000,
    cores: Cores = None,
    top_n: TopN = None,
    work: Work = None,
    as_json: AsJson = False,
    out: Out = None,
) -> None:
    """Time the way from photos to an index: as a whole, stage by stage, and beside a CLIP.

    sparta index runs on each set of photos, for its time, start included, and its memory. Then each
    stage runs alone on all cores; backbone and transformer in torch too. A CLIP ViT-B/32 with
    random weights shows what its image tower would take in torch on the same cores.

    Photos are drawn unless a folder is given: scenes of sparta scenes, enlarged, with noise, as
    JPEG of quality 90; 32 of each size, repeated under other names. The table is Markdown, and with
    --out it is written beside the JSON file.

    [bold]Examples[/bold]

    sparta bench photos --model model/ --cores 2 --out photos.json

    sparta bench photos ~/Pictures --model model/
    """
    used = use_cores(cores)
    from rich.console import Console
    from transformers.utils import logging

    from eval.bench.photos.inputs import PhotoSet, draw_photos, parse_sizes
    from eval.bench.photos.measure import PhotoPlan, measure_photos
    from eval.report import report
    from sparta.progress import progress_bars

    logging.disable_progress_bar()
    check_out(out)
    chosen = parse_sizes(sizes)
    bars = {"draw": ("Drawing", "photos"), "measure": ("Measuring", "figures")}
    with TemporaryDirectory(dir=work) as name, progress_bars(bars, Console(stderr=True)) as show:
        folder = Path(name)
        drawn = (draw_photos(folder, count, *size, show) for size in chosen)
        sets = [PhotoSet.of(photos)] if photos else list(drawn)
        found = measure_photos(PhotoPlan(sets, model, used, folder, top_n), show)
    report(found, context.params, out, as_json)
    if out is not None:
        with out.with_suffix(".md").open("w", encoding="utf-8") as file:
            Console(file=file, width=300).print(found.table())


def use_cores(count: int | None) -> int:
    """Restrict this process, and with it all that it starts, to some of its cores."""
    # Before torch is loaded, which decides on its threads then; as sparta index does.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    if not hasattr(os, "sched_setaffinity"):
        if count is not None:
            raise InputError("--cores needs Linux: leave it out")
        return os.cpu_count() or 1
    allowed = sorted(os.sched_getaffinity(0))
    if count is not None and count > len(allowed):
        raise InputError(f"--cores {count}: this process may use {len(allowed)}")
    os.sched_setaffinity(0, allowed[:count])
    return len(allowed[:count])
