"""The API keys of a benchmark's clients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from server.security.keys import new_key, write_keys


@dataclass(frozen=True)
class Access:
    """A file of keys, and their texts.

    Attributes:
        file: for the server.
        search: a key for each client; limits are per key.
        metrics: allows to read the metrics.
    """

    file: Path
    search: Sequence[str]
    metrics: str

    @classmethod
    def create(cls, file: Path, clients: int) -> Access:
        """Write a file with a new key for each client, and one for the metrics."""
        made = [new_key(f"client {number}", "search") for number in range(clients)]
        monitor, metrics = new_key("monitor", "metrics")
        write_keys(file, [*(key for key, _ in made), monitor])
        return cls(file, [text for _, text in made], metrics)
