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
        write: a key for each client that writes.
    """

    file: Path
    search: Sequence[str]
    metrics: str
    write: Sequence[str] = ()

    @classmethod
    def create(cls, file: Path, clients: int, writers: int = 0) -> Access:
        """Write a file with a new key for each client, and one for the metrics."""
        made = [new_key(f"client {number}", "search") for number in range(clients)]
        writing = [new_key(f"writer {number}", "write") for number in range(writers)]
        monitor, metrics = new_key("monitor", "metrics")
        write_keys(file, [*(key for key, _ in made + writing), monitor])
        return cls(file, [text for _, text in made], metrics, [text for _, text in writing])
