"""Whether a network runs on a CPU, found out without importing torch where that is possible."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

# Kernel drivers: NVIDIA's, AMD's, and those of Windows' Linux.
GPU_FILES = (Path("/dev/nvidiactl"), Path("/dev/kfd"), Path("/dev/dxg"))


def on_cpu(device: str) -> bool:
    """Whether a network on this device runs on a CPU.

    Args:
        device: "auto", "cpu", "cuda", "mps", …; "auto" takes a GPU if there is one.
    """
    if device != "auto":
        return device == "cpu"
    if not _may_have_gpu():
        return True
    import torch

    return not (torch.cuda.is_available() or torch.backends.mps.is_available())


def _may_have_gpu() -> bool:
    """Whether torch is installed in a build that could find a GPU here."""
    try:
        build = version("torch")
    except PackageNotFoundError:
        return False
    if sys.platform == "linux":
        return not build.endswith("+cpu") and any(path.exists() for path in GPU_FILES)
    return True
