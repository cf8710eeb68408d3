"""The Python code of README.md and docs/api.md runs, in a folder with the package's drawings."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from indexer.engines.open import open_index
from server.backends import Backend
from sparta.model_id import SAMPLE
from tests.documents import ROOT, code_blocks
from tests.server.apps import serving

WITHOUT_TORCH = "\nimport sys; assert not {'torch', 'transformers'} & set(sys.modules)"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with photos/; the README's code builds index/ in it."""
    folder = tmp_path_factory.mktemp("readme")
    shutil.copytree(SAMPLE / "photos", folder / "photos")
    return folder


def run(code: str, folder: Path) -> str:
    """What the code prints, run by a fresh interpreter in the folder."""
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{code}"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_readme_prints_what_it_shows(folder: Path) -> None:
    [code] = code_blocks(ROOT / "README.md", "python")
    [shown] = code_blocks(ROOT / "README.md", "text")
    assert run(code, folder) == shown


def test_the_examples_of_the_api(folder: Path) -> None:
    build, search, ask, encode = code_blocks(ROOT / "docs/api.md", "python")
    assert len(run(build, folder).splitlines()) == 3
    assert run(search + WITHOUT_TORCH, folder)
    assert run(encode, folder)
    # The drawings have neither dogs nor times.
    ask = ask.replace("two dogs on a beach", "an elephant").replace("taken:2024", "width:*")
    with serving(Backend("sparta", open_index(folder / "index"), folder / "photos")) as address:
        assert len(run(ask.replace("http://127.0.0.1:8000", address), folder).splitlines()) == 5
