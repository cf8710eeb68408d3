"""`sparta figure gallery`."""

from pathlib import Path
from typing import Annotated

import typer

from eval.commands.figures.options import Picture
from eval.commands.options import STAGES, BatchSize, parse_numbers
from sparta.errors import InputError


def gallery(
    context: typer.Context,
    features: Annotated[Path, typer.Argument(help="Feature store of the images to search.")],
    model: Annotated[str, typer.Option(help="VisualSparta model: folder or hub name.")],
    dense: Annotated[str, typer.Option(help="Dense model: folder or hub name.")],
    queries: Annotated[Path, typer.Option(help="Text file, one query a line.")],
    out: Picture,
    sizes: Annotated[str, typer.Option(help="Numbers of images.")] = "1000,10000,100000",
    limit: Annotated[int, typer.Option(min=2, help="Distinct queries to read at most.")] = 200,
    k: Annotated[int, typer.Option("-k", min=1, help="Images of an answer.")] = 10,
    top_n: Annotated[int, typer.Option(min=1, help="Terms an image keeps.")] = 1000,
    batch_size: BatchSize = 32,
) -> None:
    """Draw the time of a search over growing galleries (GPO, figure 3; VisualSparta, table 2).

    The inverted index and exact search over vectors answer the same queries on the CPU. A gallery
    larger than the store holds its images several times, as the paper's million does.

    [bold]Example[/bold]

    sparta figure gallery features/ --model sparta/ --dense vse-inf/ --queries queries.txt
    --out gallery.png
    """
    from rich.console import Console
    from transformers.utils import logging

    from eval.bench.query_latency.collections.queries import read_queries
    from eval.figures.gallery import Gallery
    from eval.figures.search_times import draw, measure_times
    from eval.plotting import check_picture, save
    from eval.recall.model_recall import open_members
    from eval.recall.models import DenseModel, SparseModel
    from indexer.encoding.term_scores import ImageEncoder
    from indexer.encoding.torch_scorer import TorchScorer
    from sparta.features.store import FeatureStore
    from sparta.progress import progress_bars

    logging.disable_progress_bar()
    check_picture(out)
    numbers, texts = parse_numbers(sizes, "--sizes"), read_queries(queries)[:limit]
    first, second = open_members([model, dense], [features], False, "cpu")
    if not isinstance(first.model, SparseModel) or not isinstance(second.model, DenseModel):
        raise InputError(f"--model {model} must be a VisualSparta, --dense {dense} a dense model")
    sparse = first.model
    assert isinstance(first.store, FeatureStore)  # all that a VisualSparta takes
    scorer = TorchScorer(sparse.model)
    encoder = ImageEncoder([scorer], sparse.tokenizer, [first.store], batch_size, "trained")
    with progress_bars(STAGES | {"time": ("Timing", "runs")}, Console(stderr=True)) as progress:
        made = Gallery.of(encoder, second.model, max(numbers), top_n, progress)
        times = measure_times(made, texts, numbers, k, progress)
    data = {
        "distinct_images": len(made.postings),
        "queries": len(texts),
        "times": [vars(one) for one in times],
    }
    save(draw(times), data, out, context.params)
