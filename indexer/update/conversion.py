"""Makes an index folder one that can be written to."""

from __future__ import annotations

from pathlib import Path

from indexer.columns.image_table import ImageTable
from indexer.columns.manifest import FOLDER as COLUMNS
from indexer.columns.manifest import columns_fit, has_columns
from indexer.dense.row_origins import name_rows
from indexer.live.commit import FOLDER
from indexer.manifest import Manifest
from indexer.parts import MANIFEST
from sparta.atomic import sync


def make_live(folder: Path) -> Manifest:
    """Let an index folder's manifest no longer list Lucene's files, so that they may change.

    It can be killed at any moment and called again. The caller is the folder's one writer.

    Raises:
        InputError: if the folder is not an index, or is damaged.
    """
    manifest = Manifest.open(folder)
    (folder / FOLDER).mkdir(exist_ok=True)
    if manifest.live:
        return manifest
    if not has_columns(folder) or not columns_fit(folder):
        from indexer.columns.rebuild import rebuild_columns

        rebuild_columns(folder)  # those of a live index follow its changes from here on
    name_rows(folder, manifest, ImageTable(folder / COLUMNS).origins())
    manifest = manifest.as_live()
    unfinished = folder / FOLDER / "new"
    unfinished.mkdir(exist_ok=True)
    manifest.save(unfinished)
    sync(unfinished / MANIFEST)
    (unfinished / MANIFEST).replace(folder / MANIFEST)
    unfinished.rmdir()
    sync(folder / FOLDER)
    sync(folder)
    return manifest
