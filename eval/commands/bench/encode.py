"""`sparta bench encode`."""

from pathlib import Path
from typing import Annotated

import typer

from eval.commands.options import DEVICE, check_out
from sparta.errors import InputError


def encode(
    context: typer.Context,
    images: Annotated[int, typer.Option(min=1, help="Images to encode.")] = 16_000,
    batch_size: Annotated[int, typer.Option(min=1, help="Images per pass.")] = 160,
    training_batch: Annotated[
        int, typer.Option(min=0, help="Images of a training step (0: none is made).")
    ] = 160,
    layers: Annotated[int, typer.Option(min=1, help="Layers of the transformer.")] = 12,
    width: Annotated[int, typer.Option(min=64, help="Width, a multiple of 64.")] = 768,
    vocabulary: Annotated[int, typer.Option(min=2, help="Terms.")] = 30_522,
    regions: Annotated[int, typer.Option(min=1, help="Regions an image has.")] = 50,
    label_tokens: Annotated[int, typer.Option(min=1, help="Label tokens an image has.")] = 70,
    variants: Annotated[
        str, typer.Option(help="float32 or bfloat16, each with +compile behind or not.")
    ] = "float32,bfloat16,bfloat16+compile",
    chunks: Annotated[
        str, typer.Option(help="Terms matched at once, such as auto,512,2048.")
    ] = "auto",
    peak_tflops: Annotated[
        float | None,
        typer.Option(min=0.001, help="The chip's TFLOP/s in bfloat16 (default: if known)."),
    ] = None,
    device: Annotated[str, DEVICE] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="JSON file that also says how it was measured.")
    ] = None,
) -> None:
    """Time encoding and training of a VisualSparta of any size, and say what bounds it.

    The default is the size of the paper, with random weights and inputs already in memory, so
    that neither a checkpoint nor features are needed. The transformer, the matching of the whole
    vocabulary and both together are timed, then a step of training. On a CPU one thread
    computes, and its processor time counts.

    [bold]Examples[/bold]

    sparta bench encode --chunks auto,512,2048,8192 --out encode.json

    sparta bench encode --device cpu --images 32 --batch-size 8 --training-batch 4
    --variants float32,bfloat16
    """
    from rich.console import Console

    from eval.bench.encoding.measure import EncodingPlan, EncodingVariant, measure_encoding
    from eval.bench.encoding.random_model import HEAD, ModelSize
    from eval.commands.figures.options import parse_numbers
    from eval.report import report
    from sparta.features.extract.backbone import pick_device
    from sparta.progress import progress_bars

    check_out(out)
    if width % HEAD:
        raise InputError(f"--width {width} is no multiple of {HEAD}, the width of a head")
    names = [name.strip() for name in chunks.split(",")]
    plan = EncodingPlan(
        ModelSize(layers, width, vocabulary, regions, label_tokens),
        [EncodingVariant.parse(name) for name in variants.split(",")],
        images,
        batch_size,
        training_batch,
        [None if name == "auto" else parse_numbers(name, "--chunks")[0] for name in names],
        pick_device(device),
        peak_tflops,
    )
    with progress_bars({"figures": ("Timing", "figures")}, Console(stderr=True)) as show:
        found = measure_encoding(plan, lambda *steps: show("figures", *steps))
    report(found, context.params, out, as_json)
