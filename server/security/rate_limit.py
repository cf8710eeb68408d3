"""How many requests a key or an address may send: a token bucket that all workers share.

The state of a bucket is one number, the time at which it will be full again (the generic cell rate
algorithm), so that a fixed table of numbers in shared memory is enough for any number of clients
and workers. A client has two cells of the table, as in a count-min sketch, and the emptier bucket
counts: another client slows it down only where it shares both. Two workers that write a cell at the
same moment may count one request instead of two.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from functools import lru_cache, partial
from hashlib import blake2b
from multiprocessing.sharedctypes import RawArray
from time import monotonic
from typing import Any

CELLS = 1 << 16  # half a megabyte
REMEMBERED = 1024  # clients whose cells need not be found again


@dataclass(frozen=True)
class Buckets:
    """The table, which can be passed to worker processes as they start.

    Attributes:
        full_at: for each cell, the time at which its bucket is full, in seconds of the monotonic
            clock, which all processes share.
        seed: of the hash that finds cells, so that nobody can choose a name that shares another's.
    """

    full_at: Any = field(default_factory=lambda: RawArray("d", CELLS))
    seed: bytes = field(default_factory=lambda: secrets.token_bytes(16))


class RateLimit:
    """A limit on requests a second.

    Args:
        rate: requests a second in the long run.
        burst: requests at once, after a pause.
        buckets: shared with other workers.
    """

    def __init__(self, rate: float, burst: int, buckets: Buckets) -> None:
        self._interval = 1 / rate
        self._room = (burst - 1) / rate
        self._full_at = buckets.full_at
        self._cells = lru_cache(REMEMBERED)(partial(_cells, buckets.seed))

    def take(self, name: str) -> float:
        """Take a token from the bucket of a name.

        Returns:
            0 if there was one, else the seconds until there will be.
        """
        first, second = self._cells(name)
        table, now = self._full_at, monotonic()
        full = max(now, min(table[first], table[second]))
        if (wait := full - now - self._room) > 0:
            return float(wait)
        full += self._interval
        table[first] = max(table[first], full)
        table[second] = max(table[second], full)
        return 0.0


def _cells(seed: bytes, name: str) -> tuple[int, int]:
    """The two cells of a client."""
    digest = blake2b(name.encode(), digest_size=4, key=seed).digest()
    return digest[0] << 8 | digest[1], digest[2] << 8 | digest[3]
