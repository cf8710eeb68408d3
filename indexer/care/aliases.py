"""Names that stand for an index: symbolic links, switched at once."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import mkdtemp

from indexer.manifest import Manifest
from indexer.shards import index_folders
from sparta.atomic import sync
from sparta.errors import InputError


def set_alias(alias: Path, index: Path) -> Path | None:
    """Let a name stand for an index; whoever opens it finds the former one or this one.

    Args:
        alias: path of the name; need not exist.
        index: an index folder, or another alias, whose index is meant.

    Returns:
        the index that it stood for, None if the name is new.

    Raises:
        InputError: if `index` is not an index, or something else has the name.
    """
    target = index.resolve()
    for folder in index_folders(target):
        Manifest.open(folder)
    if os.path.lexists(alias) and not alias.is_symlink():
        raise InputError(f"{alias} exists and is no alias: choose another name")
    former = alias.resolve() if alias.is_symlink() else None
    alias.parent.mkdir(parents=True, exist_ok=True)
    work = Path(mkdtemp(prefix=f".{alias.name}.", dir=alias.parent))
    try:
        link = work / "link"
        # Relative, so that both can be moved together, as into a container.
        link.symlink_to(os.path.relpath(target, alias.parent.resolve()))
        link.replace(alias)
    finally:
        (work / "link").unlink(missing_ok=True)
        work.rmdir()
    sync(alias.parent)
    return former
