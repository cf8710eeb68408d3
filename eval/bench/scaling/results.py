"""The figures of a measurement of workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from rich.table import Table


@dataclass(frozen=True)
class Spread:
    """Blocks of images that some workers encode.

    Attributes:
        workers: each on a core; 0 for this process alone, on one core, without Ray.
        images_per_second: from the beginning of the first block to the end of the last.
        work_ms: processor time of a block's work in a worker, mean.
        block_ms: what a block of no work takes, whose result is as large; 0 without Ray.
        start_seconds: until the first block begins: Ray's connection, workers, model.
    """

    workers: int
    images_per_second: float
    work_ms: float
    block_ms: float
    start_seconds: float


@dataclass(frozen=True)
class ScaleFigures:
    """What was measured.

    Attributes:
        block_images: images of a block, at most.
        blocks: how many were encoded.
        result_bytes: of a block's postings, pickled, mean.
        spread: by number of workers.
    """

    block_images: int
    blocks: int
    result_bytes: int
    spread: Sequence[Spread] = field(default_factory=list)

    def record(self) -> dict[str, Any]:
        """The figures as JSON values."""
        return asdict(self)

    def table(self) -> Table:
        """The figures as a table."""
        title = f"{self.blocks} blocks of {self.block_images} images"
        table = Table("workers", "images/s", "work, ms/block", "Ray, ms/block", "start, s")
        table.title = f"{title}; a result has {self.result_bytes:,} bytes"
        for one in self.spread:
            table.add_row(
                str(one.workers) if one.workers else "none, no Ray",
                f"{one.images_per_second:,.1f}",
                f"{one.work_ms:,.0f}",
                f"{one.block_ms:,.0f}",
                f"{one.start_seconds:.1f}",
            )
        return table
