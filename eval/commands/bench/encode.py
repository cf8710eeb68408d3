"""`sparta bench encode`."""

from typing import Annotated

import typer

from eval.commands.options import AsJson, Device, Out, check_out, parse_numbers
from sparta.errors import InputError

ImageCount = Annotated[int, typer.Option(min=1, help="Images to encode.")]
BatchSize = Annotated[int, typer.Option(min=1, help="Images per pass.")]
TrainingBatch = Annotated[
    int, typer.Option(min=0, help="Images of a training step (0: training is not timed).")
]
Layers = Annotated[int, typer.Option(min=1, help="Layers of the transformer.")]
Width = Annotated[int, typer.Option(min=64, help="Width, a multiple of 64.")]
Vocabulary = Annotated[int, typer.Option(min=2, help="Terms.")]
Regions = Annotated[int, typer.Option(min=1, help="Regions of an image.")]
LabelTokens = Annotated[int, typer.Option(min=1, help="Label tokens of an image.")]
Variants = Annotated[str, typer.Option(help="float32 or bfloat16, optionally with +compile.")]
Chunks = Annotated[str, typer.Option(help="Terms matched at once, such as auto,512,2048.")]
PeakTflops = Annotated[
    float | None,
    typer.Option(min=0.001, help="The device's TFLOP/s in bfloat16 (default: if known)."),
]


def encode(
    context: typer.Context,
    images: ImageCount = 16_000,
    batch_size: BatchSize = 160,
    training_batch: TrainingBatch = 160,
    layers: Layers = 12,
    width: Width = 768,
    vocabulary: Vocabulary = 30_522,
    regions: Regions = 50,
    label_tokens: LabelTokens = 70,
    variants: Variants = "float32,bfloat16,bfloat16+compile",
    chunks: Chunks = "auto",
    peak_tflops: PeakTflops = None,
    device: Device = "auto",
    as_json: AsJson = False,
    out: Out = None,
) -> None:
    """Time encoding and training of a VisualSparta of any size, and report what bounds it.

    The default is the paper's size. Weights are random and inputs already in memory, so that
    neither a checkpoint nor features are needed. The transformer, the matching of the vocabulary
    and both together are timed, then a training step. On a CPU one thread computes, and its
    processor time is reported.

    [bold]Examples[/bold]

    sparta bench encode --chunks auto,512,2048,8192 --out encode.json

    sparta bench encode --device cpu --images 32 --batch-size 8 --training-batch 4
    --variants float32,bfloat16
    """
    from rich.console import Console

    from eval.bench.encoding.measure import EncodingPlan, EncodingVariant, measure_encoding
    from eval.bench.encoding.random_model import HEAD, ModelSize
    from eval.report import report
    from sparta.features.extract.networks.backbone import pick_device
    from sparta.progress import progress_bars

    check_out(out)
    if width % HEAD:
        raise InputError(f"--width {width} is not a multiple of {HEAD}, the width of a head")
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
    with progress_bars({"figures": ("Timing", "figures")}, Console(stderr=True)) as progress:
        found = measure_encoding(plan, progress)
    report(found, context.params, out, as_json)
