"""`sparta verify`."""

from pathlib import Path
from typing import Annotated

import typer

from sparta.errors import InputError

Folder = Annotated[
    Path,
    typer.Argument(metavar="FOLDER", help="An index, a feature store, or a folder of stores."),
]


def verify(folder: Folder) -> None:
    """Check every file of an index or of feature stores for damage.

    All content is read and compared with the hashes that were recorded when it was written. Opening
    an index checks files up to 16 MB, and how larger ones fit together.

    For example:

    sparta verify index/

    sparta verify index.features/
    """
    from indexer.manifest import is_index
    from indexer.verify import verify_index
    from sparta.console import Console
    from sparta.features.store import HEADER, stores_in, verify_stores
    from sparta.progress import progress_bars

    stores = [] if is_index(folder) else stores_in(folder)
    if not is_index(folder) and not stores:
        raise InputError(
            f"{folder} is neither an index (no manifest.json) nor a feature store or a folder of "
            f"them (no {HEADER})"
        )
    stages = {"hash": ("Hashing files", "MB")}
    with progress_bars(stages, Console(stderr=True)) as progress:
        problems = verify_stores(stores, progress) if stores else verify_index(folder, progress)
    console = Console()
    for problem in problems:
        console.print(problem, soft_wrap=True, highlight=False)
    if problems:
        raise InputError(f"{folder}: {len(problems)} problem{'s' if len(problems) > 1 else ''}")
    console.print(f"{folder}: no damage", soft_wrap=True, highlight=False)
