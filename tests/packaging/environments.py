"""Virtual environments to install the wheel into, and commands run inside them."""

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

ROOT = Path(__file__).parents[2]

# A new environment must find nothing of this checkout.
VARIABLES = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


class Environment:
    """A virtual environment; it has no pip, the one that runs the tests serves it.

    Attributes:
        folder: of the environment.
        site: its site-packages.
    """

    def __init__(self, folder: Path) -> None:
        venv.create(folder, with_pip=False)
        self.folder = folder
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        self.site = folder / "lib" / version / "site-packages"

    def borrow_dependencies(self) -> None:
        """Let it import what the environment that runs the tests has installed.

        Nothing that is installed editable comes along: a path file read from a path file adds
        nothing.
        """
        (self.site / "borrowed.pth").write_text(sysconfig.get_paths()["purelib"])

    def install(self, *arguments: str) -> None:
        """Install what pip is given."""
        python = str(self.folder / "bin" / "python")
        pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet"]
        subprocess.run([*pip, *arguments], check=True, env=VARIABLES)

    def sparta(self, *arguments: str | Path) -> list[str]:
        """How to run `sparta` in it: an absolute path and the arguments."""
        return [str(self.folder / "bin" / "sparta"), *map(str, arguments)]

    def run(self, folder: Path, *arguments: str | Path) -> str:
        """What `sparta` writes to stdout when run in a folder."""
        done = subprocess.run(
            self.sparta(*arguments),
            cwd=folder,
            env=VARIABLES,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout
