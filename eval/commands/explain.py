"""`sparta explain` and `sparta eval figure`."""

import json
from pathlib import Path
from typing import Annotated, Literal

import typer

from eval.commands.options import OptionalCaptions, Split, begin, check_out
from sparta.commands.options import (
    AsJson,
    BatchSize,
    Device,
    IndexFolder,
    Photos,
    Substitute,
    check_query,
)
from sparta.extras import check_installed


def explain(
    context: typer.Context,
    index: IndexFolder,
    image: Annotated[str, typer.Argument(help="Id of a photo in the index.")],
    query: Annotated[list[str], typer.Argument(help="One query or several.")],
    figure: Annotated[
        Path | None,
        typer.Option(
            help="PNG file to write: the photo with the region that won each term; its numbers are "
            "written beside it, as .json."
        ),
    ] = None,
    photos: Photos = None,
    substitute: Substitute = True,
    as_json: AsJson = False,
) -> None:
    """Explain a photo's score for a query: the impact of each term, and what in the photo won it.

    A term's score is the maximum over all regions of the photo and all tokens of their labels
    (equation 10). The index stores which one won, so that no model runs.

    For example:

    sparta explain index/ beach/1.jpg "two brown dogs play on the beach"

    sparta explain index/ beach/1.jpg "two dogs" "a ball in the sand" --figure why.png
    """
    from eval.figures import grounding
    from indexer.commands.search import terms_table
    from indexer.engines.open import open_index
    from indexer.manifest import Manifest
    from sparta.console import Console

    for text in query:
        check_query(text)
    check_out(figure, "--figure", ".png")
    searcher = open_index(index)
    found = [grounding.explain(searcher, image, text, substitute) for text in query]
    records = [one.record() for one in found]
    if figure is not None:
        from eval.plotting import save
        from eval.report import head_of, index_models

        drawn = grounding.draw(found, photos or Manifest.of(index).photos)
        head = head_of(context, index_models(index))
        save(drawn, {**head, "examples": records}, figure)
    if as_json:
        typer.echo(json.dumps(records, ensure_ascii=False, indent=2))
        return
    console = Console()
    for one in found:
        title = f"{image}: “{one.query}” ({one.explanation.score:g})"
        console.print(terms_table(one.explanation.terms, title))
        if one.explanation.against:
            console.print(f"A search leaves it out: {' '.join(one.explanation.against)}")


Name = Literal[
    "coefficients", "k-max", "negatives", "convergence", "cases", "views", "attention",
    "captions", "grounding",
]  # fmt: skip


def figure(
    context: typer.Context,
    name: Annotated[Name, typer.Argument(help="Which figure.")],
    source: Annotated[list[str], typer.Argument(help="What it is drawn from, see above.")],
    out: Annotated[Path, typer.Option(help="PNG file; its numbers go beside it, as .json.")],
    features: Annotated[Path | None, typer.Option(help="Feature store.")] = None,
    captions: OptionalCaptions = None,
    split: Split = "val",
    photos: Photos = None,
    image: Annotated[str | None, typer.Option(help="attention: id of the image.")] = None,
    caption: Annotated[
        list[str] | None, typer.Option(help="attention: a text to show under its nearest view.")
    ] = None,
    images: Annotated[
        int, typer.Option(min=1, help="grounding, cases: number of images to draw.")
    ] = 10,
    batch_size: BatchSize = 32,
    device: Device = "auto",
) -> None:
    """Draw a figure of the papers from trained models, runs or an index.

    coefficients: the pooling a GPO MODEL has learned (GPO 5). k-max: RSUM of k-max pooling, from
    RUNS with a recall.json of sparta eval model (GPO 6). negatives: what ADOPT took at each step,
    convergence: validation recall by epoch, from [NAME=]RUNS (VSE+2AD C-2, A.2-1). cases: the
    best captions of photos, and photos of captions, by MODELS or RUNS (VSE+2AD 4). views:
    similarity and wins of the views of [NAME=]MODELS (MV-VSE 4). attention: where in a photo each
    view of a MODEL attends (MV-VSE 5). captions: how near the captions of a photo are, by a
    sentence ENCODER such as all-MiniLM-L6-v2 (MV-VSE 2). grounding: what in photos of an INDEX won
    the terms of their captions (VisualSparta 3). Photos are at even distances in the order of ids.

    For example:

    sparta eval figure coefficients model/ --out coefficients.png

    sparta eval figure views 0.7=joint/model 1=max/model --features features/
    --captions captions.jsonl --out views.png
    """
    check_installed("plots,train", "matplotlib", "torch", "transformers")
    from eval.figures.papers import FIGURES, Inputs
    from eval.plotting import save
    from eval.report import head_of

    with begin(out, ".png") as progress:
        given = Inputs(
            source, features, captions, split, photos, image, caption or [], images,
            batch_size, device, progress,
        )  # fmt: skip
        drawn, numbers = FIGURES[name](given)
    save(drawn, {**head_of(context), **numbers}, out)
