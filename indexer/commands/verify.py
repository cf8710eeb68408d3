"""`sparta verify`."""

from pathlib import Path
from typing import Annotated

import typer

from sparta.errors import InputError

Folder = Annotated[
    Path,
    typer.Argument(metavar="INDEX_OR_STORE", help="An index folder, or a feature store."),
]


def verify(folder: Folder) -> None:
    """Check every file of an index or a feature store for damage.

    All content is read and compared with the hashes that were recorded when it was written; of an
    index, Lucene's own CheckIndex runs as well. Opening an index checks files up to 16 MB, and
    how larger ones fit together.

    [bold]Examples[/bold]

    sparta verify index/

    sparta verify index.features/plain
    """
    from rich.console import Console

    from indexer.manifest import is_index
    from indexer.verify import verify_index
    from sparta.features.store import HEADER
    from sparta.features.verify import verify_store
    from sparta.progress import progress_bars

    if not is_index(folder) and not (folder / HEADER).is_file():
        raise InputError(
            f"{folder} is neither an index (no manifest.json) nor a feature store (no {HEADER})"
        )
    stages = {"hash": ("Hashing files", "MB"), "lucene": ("Lucene's CheckIndex", "indexes")}
    with progress_bars(stages, Console(stderr=True)) as progress:
        problems = (verify_index if is_index(folder) else verify_store)(folder, progress)
    console = Console()
    for problem in problems:
        console.print(problem, soft_wrap=True, highlight=False, markup=False)
    if problems:
        raise InputError(f"{folder}: {len(problems)} problem{'s' if len(problems) > 1 else ''}")
    console.print(f"{folder}: no damage", soft_wrap=True, highlight=False, markup=False)
