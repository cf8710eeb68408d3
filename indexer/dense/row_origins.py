"""What the rows of a dense part were embedded from, once its index is written to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from indexer.dense.manifest import ORIGINS, DenseManifest, dense_folder, dense_names
from indexer.manifest import Manifest
from indexer.parts import MANIFEST, Part
from sparta.atomic import sync
from sparta.checksum import sha256
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


def name_rows(index: Path, manifest: Manifest, origins: pa.ChunkedArray) -> None:
    """Write the origins of the rows of all dense parts of an index that is as it was built.

    It can be killed at any moment and called again.

    Args:
        index: the index folder.
        manifest: of the index.
        origins: of its images, in their order.

    Raises:
        InputError: if a part is damaged or of another index.
    """
    for name in dense_names(index):
        made = DenseManifest.open(index, name, manifest)
        folder = dense_folder(index, name)
        if ORIGINS in made.parts:
            continue
        write_origins(folder, origins.to_pylist())
        path = folder / ORIGINS
        part = Part(path.stat().st_size, sha256(path))
        unfinished = folder / "new"
        unfinished.mkdir(exist_ok=True)
        replace(made, parts={**made.parts, ORIGINS: part}).save(unfinished)
        sync(unfinished / MANIFEST)
        (unfinished / MANIFEST).replace(folder / MANIFEST)
        unfinished.rmdir()
        sync(folder)
