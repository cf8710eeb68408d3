"""`sparta eval queries`."""

from pathlib import Path
from typing import Annotated

import typer

from eval.commands.options import STAGES, AsJson, IndexFolder, Out, check_out

Queries = Annotated[
    Path, typer.Option(help="JSON lines with query, images (all that answer it), optional kind.")
]


def queries(
    context: typer.Context,
    index: IndexFolder,
    queries: Queries,
    as_json: AsJson = False,
    out: Out = None,
) -> None:
    """Measure how often the first hit is right, for queries with known answers.

    [bold]Example[/bold]

    sparta eval queries index/ --queries scenes/queries.jsonl
    """
    from rich.console import Console

    from eval.recall.index import measure_first_hits, read_judged_queries
    from eval.report import report
    from indexer.search.open import open_index
    from sparta.progress import progress_bars

    check_out(out)
    judged = read_judged_queries(queries)
    with progress_bars(STAGES, Console(stderr=True)) as progress:
        found = measure_first_hits(open_index(index), judged, progress)
    report(found, context.params, out, as_json)
