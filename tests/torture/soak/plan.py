"""What a soak does, and how often."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SoakPlan:
    """The load of a soak, and what disturbs it.

    Attributes:
        minutes: of load.
        clients: that search at once.
        workers: processes of the server.
        images: of the index.
        k: hits of an answer.
        pause: mean seconds between an answer and the next search of its client.
        killed_every: seconds between two killed workers.
        rebuilt_every: seconds from a rebuilt index to the beginning of the next rebuild.
        copied_every: seconds from a snapshot of an index that is written to, to the next one.
        hanging_up: clients that hang up, beside those that search.
        writers: clients that write; with any, the index is not rebuilt.
        explained: share of the searches that ask for explanations.
        sampled_every: seconds between two samples of the memory.
        seed: of the order of queries and of the images.
    """

    minutes: float
    clients: int
    workers: int
    images: int
    k: int = 10
    pause: float = 0.0
    killed_every: float = 60
    rebuilt_every: float = 60
    copied_every: float = 60
    hanging_up: int = 4
    writers: int = 0
    explained: float = 0.1
    sampled_every: float = 15
    seed: int = 0

    @property
    def seconds(self) -> float:
        """Of load."""
        return 60 * self.minutes
