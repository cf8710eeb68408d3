"""Checks every shard of feature stores against its hash."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from sparta.errors import InputError
from sparta.features.store import HEADER, FeatureStore
from sparta.progress import Progress, no_progress


def stores_in(folder: Path) -> list[Path]:
    """The feature store that a folder is, or those in it: one per test-time augmentation."""
    if (folder / HEADER).is_file():
        return [folder]
    return sorted(header.parent for header in folder.glob(f"*/{HEADER}"))


def verify_stores(folders: Iterable[Path], progress: Progress = no_progress) -> list[str]:
    """Check feature stores one after the other; see `verify_store`.

    Returns:
        what is damaged, a line each; a store that cannot be opened is one line.
    """
    problems: list[str] = []
    for folder in folders:
        try:
            problems += verify_store(folder, progress)
        except InputError as error:
            problems.append(str(error))
    return problems


def verify_store(folder: Path, progress: Progress = no_progress) -> list[str]:
    """Check a feature store.

    Args:
        folder: of the store.
        progress: stage "hash", in megabytes.

    Returns:
        what is damaged, a line each.

    Raises:
        InputError: if the folder holds no finished store of this version, or a shard has another
            size.
    """
    store = FeatureStore.open(folder)
    problems: list[str] = []
    done, total = 0, sum(store.shard_bytes)
    for number, size in enumerate(store.shard_bytes):
        try:
            store.check_shard(number)
        except InputError as error:
            problems.append(str(error))
        done += size
        progress("hash", -(-done // 10**6), -(-total // 10**6))
    return problems
