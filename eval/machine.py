"""The machine and version of a measurement, recorded with every result."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any


def circumstances() -> dict[str, Any]:
    """Package version, date (UTC) and `machine`, in one dictionary."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return {"package_version": version("visualsparta"), "date": now, **machine()}


def machine() -> dict[str, Any]:
    """Processor name, the number of cores that this process may use, and Python's version."""
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "python": platform.python_version(),
    }


def _processor() -> str:
    """The processor's name; on Linux `platform` does not find it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())
