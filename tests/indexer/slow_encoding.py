"""Encoding that takes a while, in workers that a test kills."""

import os
import time
from pathlib import Path

from indexer.encoding.encoder import ImageEncoder, encode_rows
from indexer.encoding.impacts import ImpactParameters
from indexer.postings import PostingShard


def encode_slowly(
    notes: Path, encoder: ImageEncoder, rows: range, parameters: ImpactParameters
) -> PostingShard:
    """Encode rows, after a note of the node and the process that do, and time to kill them."""
    (notes / f"{os.getppid()}-{os.getpid()}-{rows.start}").touch()
    time.sleep(0.5)
    return encode_rows(encoder, rows, parameters)


def wait_for_worker(notes: Path, node: int, other: bool = False) -> int:
    """The process of a worker that encodes on a node, or another; raises TimeoutError."""
    for _ in range(600):
        for note in notes.iterdir():
            parent, worker, _ = note.name.split("-")
            if (int(parent) == node) != other:
                return int(worker)
        time.sleep(0.1)
    raise TimeoutError(f"no worker has noted anything in {notes}")
