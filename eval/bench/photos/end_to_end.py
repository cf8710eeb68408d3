"""`sparta index PHOTOS` as a user runs it: its time and its memory."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from eval.bench.peak_memory import watch
from eval.bench.photos.inputs import PhotoSet
from sparta.errors import InputError
from sparta.features.store import HEADER


@dataclass(frozen=True)
class EndToEnd:
    """One run of the command.

    Attributes:
        photos: indexed.
        seconds: of the whole command, its start included.
        extract_seconds: until all features were extracted, the start included.
        memory: peak of the command and its child processes together, in bytes, as `watch` counts
            it; None where it cannot be read.
    """

    photos: int
    seconds: float
    extract_seconds: float
    memory: int | None

    @property
    def photos_per_second(self) -> float:
        """Of the whole command."""
        return self.photos / self.seconds


def index_photos(photos: PhotoSet, model: str, out: Path, top_n: str | None) -> EndToEnd:
    """Run the command, on the cores of this process.

    Args:
        photos: to index.
        model: folder or name.
        out: of the index; the features remain in `OUT.features`.
        top_n: terms an image keeps, None for the command's default.

    Raises:
        InputError: if the command fails, with the last line of its output.
    """
    command = [sys.executable, "-m", "sparta", "index", str(photos.folder), "--model", model]
    command += ["--out", str(out), "--device", "cpu", *(["--top-n", top_n] if top_n else [])]
    start, begun = time.perf_counter(), time.time()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    with process, watch(process.pid) as peak:
        output, _ = process.communicate()
    seconds = time.perf_counter() - start
    if process.returncode:
        lines = output.decode(errors="replace").strip().splitlines() or ["no message"]
        raise InputError(f"sparta index {photos.folder} failed: {lines[-1]}")
    extracted = features_of(out) / HEADER
    return EndToEnd(len(photos.ids), seconds, extracted.stat().st_mtime - begun, peak.bytes)


def features_of(out: Path) -> Path:
    """The feature store that the command leaves beside the index."""
    return out.with_name(f"{out.name}.features") / "plain"
