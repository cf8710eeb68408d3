"""The kernel compiled with a patch, as an extension module beside the one that ships."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tomllib
from collections.abc import Sequence
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol, cast

from eval.bench.trials.arguments import Arguments
from eval.bench.trials.trial import Trial
from sparta.errors import InputError

ROOT = Path(__file__).parents[3]
SOURCES = Path("indexer/columns/native")
MODULE = "_native"  # which the sources call themselves


class Kernel(Protocol):
    """What is timed of `indexer.columns.native._native`."""

    def best_documents(self, *arguments: *Arguments) -> int:
        """The number of documents that were found."""
        ...


def compiled(trial: Trial, cache: Path, flags: Sequence[str] | None = None) -> Kernel:
    """Patch the sources of the kernel, compile and load them.

    Args:
        trial: whose patch is applied to a copy.
        cache: folder of modules, named after trial, sources and flags; those there are loaded.
        flags: of the C compiler; None for those of the package.

    Raises:
        InputError: if the sources are not there, or the patch does not fit them.
        setuptools.errors.CompileError: if they do not compile.
    """
    flags = package_flags() if flags is None else flags
    with TemporaryDirectory() as folder:
        sources = patched(trial, Path(folder) / "sources")
        made = cache / f"{trial.name}-{_fingerprint(sources, flags)}.abi3.so"
        if not made.exists():
            cache.mkdir(parents=True, exist_ok=True)
            shutil.move(_build(sources, flags), made)
    return _load(made)


def patched(trial: Trial, folder: Path) -> list[Path]:
    """Copy the sources of the kernel into a new folder, and apply a trial's patch there."""
    if not (ROOT / SOURCES / "native.c").is_file():
        raise InputError("trials compile the sources of the kernel: run them in a checkout")
    copied = folder / SOURCES
    copied.mkdir(parents=True)
    for path in (ROOT / SOURCES).glob("*.[ch]"):
        shutil.copy(path, copied)
    if trial.patch is not None:
        _apply(trial.patch, folder)
    return sorted(copied.iterdir())


def package_flags() -> list[str]:
    """What the package's build gives the compiler."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    modules = project["tool"]["setuptools"]["ext-modules"]
    flags: list[str] = next(m for m in modules if m["name"].endswith(MODULE))["extra-compile-args"]
    return flags


def _apply(patch: Path, folder: Path) -> None:
    # Within a repository git would pass over files that are outside of it, without an error.
    environment = os.environ | {"GIT_CEILING_DIRECTORIES": str(folder.resolve().parent)}
    command = ["git", "apply", "--whitespace=nowarn", str(patch.resolve())]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise InputError(f"{patch.name} does not fit the kernel: {done.stderr.strip()}")


def _fingerprint(sources: Sequence[Path], flags: Sequence[str]) -> str:
    digest = hashlib.sha256("\0".join(flags).encode())
    for path in sources:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _build(sources: Sequence[Path], flags: Sequence[str]) -> Path:
    """Compile as setuptools does when it builds the package; the module's file."""
    from setuptools import Distribution, Extension

    folder = sources[0].parent
    files = [str(path) for path in sources if path.suffix == ".c"]
    module = Extension(MODULE, files, extra_compile_args=list(flags), py_limited_api=True)
    distribution = Distribution({"name": "trial", "ext_modules": [module]})
    command = distribution.get_command_obj("build_ext")
    command.build_lib = command.build_temp = str(folder / "build")
    distribution.run_command("build_ext")
    return next((folder / "build").glob(f"{MODULE}*"))


def _load(path: Path) -> Kernel:
    # Python asks the file for the function that is named after the last part of a module's name.
    name = f"{path.name.partition('.')[0]}.{MODULE}"
    spec = spec_from_file_location(name, path, loader=ExtensionFileLoader(name, str(path)))
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return cast(Kernel, module)
