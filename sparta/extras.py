"""Libraries that not every installation has: the extras of `pyproject.toml`."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from sparta.errors import InputError

# Module → the extra that installs it.
EXTRAS = {
    "lightning": "train",
    "tensorboard": "train",
    "faiss": "dense",
    "matplotlib": "plots",
    "bm25s": "bench",
    "impact_index": "bench",
    "threadpoolctl": "bench",
    "h5py": "video",
}


def require(module: str) -> Any:
    """Import a library that an extra installs.

    Raises:
        InputError: naming the extra, if the library is not installed.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise missing_extra(error) or error from None


def missing_extra(error: ModuleNotFoundError) -> InputError | None:
    """The one-line error for a library of an extra that is missing, None for any other module."""
    module = (error.name or "").partition(".")[0]
    if module not in EXTRAS:
        return None
    return InputError(
        f"{module} is not installed; run: pip install 'visualsparta[{EXTRAS[module]}]'"
    )
