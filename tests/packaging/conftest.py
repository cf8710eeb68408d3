"""The wheel, built once from the source distribution, and an index that it made."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.packaging.environments import ROOT, Environment
from tests.scenes.corpus import write_scenes


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "build", "--outdir", str(out), str(ROOT)], check=True)
    return next(out.glob("*.whl"))


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """A new environment with the wheel in it, and the dependencies of this one."""
    environment = Environment(tmp_path_factory.mktemp("installed"))
    environment.borrow_dependencies()
    environment.install("--no-deps", str(wheel))
    return environment


@pytest.fixture(scope="session")
def demo(installed: Environment, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo's folder: scenes, their features and their index, made outside the repository."""
    folder = tmp_path_factory.mktemp("demo")
    write_scenes(folder / "scenes", 1000, seed=7, split="demo", workers=os.cpu_count() or 1)
    installed.run(folder, "extract", "scenes/images", "--backbone", "pixels", "--out", "features")
    installed.run(folder, "index", "features", "--model", "sample", "--out", "index")
    return folder
