"""What the rows of a dense part were embedded from."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from indexer.dense.manifest import ORIGINS
from sparta.atomic import sync
from sparta.errors import InputError, first_line

_SCHEMA = pa.schema([("origin", pa.large_string())])


def write_origins(folder: Path, origins: Iterable[str]) -> None:
    """Write and sync the origins of a part's rows, in their order."""
    table = pa.table([list(origins)], schema=_SCHEMA)
    with pa.OSFile(str(folder / ORIGINS), "wb") as file, pa.ipc.new_file(file, _SCHEMA) as writer:
        writer.write_table(table)
    sync(folder / ORIGINS)


def read_origins(folder: Path) -> pa.ChunkedArray:
    """The origins of a part's rows.

    Raises:
        InputError: if the file is damaged.
    """
    path = folder / ORIGINS
    try:
        table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
        table.validate(full=True)
        return table.column("origin")
    except (pa.ArrowException, OSError, KeyError) as error:
        raise InputError(
            f"{path} is damaged ({first_line(error)}): add the dense part again with "
            "`sparta index-dense`"
        ) from error
