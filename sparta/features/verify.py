"""Checks every shard of a feature store against its hash."""

from __future__ import annotations

from pathlib import Path

from sparta.errors import InputError
from sparta.features.store import FeatureStore
from sparta.progress import Progress, no_progress


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
