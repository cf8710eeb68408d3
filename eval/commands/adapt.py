"""The command `sparta adapt`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sparta.commands.options import Device
from sparta.extras import check_installed, set_up_libraries

if TYPE_CHECKING:
    from eval.recall.retention import Retention
    from sparta.json_values import Json

Names = Annotated[
    list[str],
    typer.Argument(
        help="Dual encoder such as CLIP or SigLIP, or a dense model: hub name or folder. The model "
        "has the image side of the first; further ones teach it too."
    ),
]
Sentences = Annotated[
    list[str],
    typer.Option(
        help="File of sentences, captions or queries, one a line; FILE:WEIGHT counts it more or "
        "less. Repeatable (default: sentences of a generator)."
    ),
]
Photos = Annotated[
    Path | None,
    typer.Option(help="Folder of photos, or feature store, like what will be searched."),
]
Captions = Annotated[Path | None, typer.Option(help="Captions of some of the photos.")]
Out = Annotated[Path, typer.Option(help="Folder for the model.")]
Patches = Annotated[
    bool,
    typer.Option("--patches", help="Score a term where the photo shows it most, whole or patch."),
]
Seed = Annotated[int, typer.Option(min=0, help="Of all random draws.")]


def adapt(
    context: typer.Context,
    encoder: Names,
    out: Out,
    sentences: Sentences = [],  # noqa: B006  # typer copies it
    photos: Photos = None,
    captions: Captions = None,
    patches: Patches = False,
    device: Device = "auto",
    seed: Seed = 0,
) -> None:
    """Make a model of term vectors from a dual encoder: its photos, searched without it.

    The model needs neither the text tower nor the sentences any more; sparta index reads photos
    with its image tower. At the end a table shows, on held-out sentences, how much of the dual
    encoder's ranking is kept; it is written to the model's README.md and retention.json. An
    interrupted run continues.

    For example:

    sparta adapt openai/clip-vit-base-patch32 --photos ~/Pictures --out clip

    sparta adapt google/siglip-base-patch16-224 --photos ~/Pictures --sentences captions.jsonl
    --sentences queries.txt:5 --out siglip

    sparta adapt runs/vse-inf/model --photos features/ --captions captions.jsonl --out terms
    """
    check_installed("train", "torch", "transformers")
    set_up_libraries()
    from eval.recall.retention import measure_retention
    from eval.report import head_of
    from sparta.adapt.adapt import STAGES, adapt
    from sparta.adapt.sentences import read_sentences
    from sparta.console import Console
    from sparta.progress import progress_bars

    given = read_sentences(sentences) if sentences else None
    console = Console()
    stages = STAGES | {"search": ("Measuring", "queries")}
    with progress_bars(stages, console) as progress:
        files = encoder, out, given, photos, captions
        adapted = adapt(*files, patches=patches, device=device, seed=seed, progress=progress)
        kept = measure_retention(adapted, progress)
    if kept:
        _write(kept, head_of(context, [adapted.encoder.name], seed), adapted.folder)
        if advice := kept.advice():
            console.print(advice)
    else:
        console.print("Not measured: give photos with --photos")
    adapted.keep()
    console.print(f"Next: sparta index PHOTOS --model {out} --out index", soft_wrap=True)


def _write(kept: Retention, head: Json, folder: Path) -> None:
    """Show the figures; write them, and the model's card."""
    from eval.report import report

    report(kept, head, folder / "retention.json", as_json=False, markdown=True)
    table, encoders = folder / "retention.md", ", ".join(map(str, head["models"]))
    card = (
        f"# Term vectors of {encoders}\n\nThe dual encoder's licence holds for this model too. It "
        "gives photos a score for every word piece; neither the text tower nor the sentences are "
        f"needed any more. What it keeps of the dual encoder's ranking:\n\n{table.read_text()}"
    )
    (folder / "README.md").write_text(card, encoding="utf-8")
    table.unlink()
