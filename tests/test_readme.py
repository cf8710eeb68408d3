"""The Python code of README.md runs as it stands, in a folder with photos and an index."""

import subprocess
import sys
from pathlib import Path

import pytest

from indexer.build import build_index
from sparta.extract.job import extract_photos
from sparta.features.store import FeatureStore
from tests.documents import ROOT, code_blocks
from tests.scenes.corpus import write_scenes

BLOCKS = code_blocks(ROOT / "README.md", "python")
WITHOUT_TORCH = "import sys; assert not {'torch', 'transformers'} & set(sys.modules)"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folders that the README names: photos/, and index/ made of them."""
    folder = tmp_path_factory.mktemp("readme")
    write_scenes(folder / "scenes", 30, 1, "demo")
    (folder / "scenes" / "images").rename(folder / "photos")
    extract_photos(folder / "photos", folder / "features", "pixels", workers=0)
    build_index([FeatureStore.open(folder / "features")], ["sample"], folder / "index")
    return folder


def run(code: str, folder: Path) -> str:
    """What the code prints, run by a fresh interpreter in the folder."""
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{code}"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_search_prints_hits_and_loads_no_torch(folder: Path) -> None:
    printed = run(f"{BLOCKS[0]}\n{WITHOUT_TORCH}", folder).splitlines()
    scores = [float(line.split()[0]) for line in printed]
    assert len(scores) == 3
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("code", BLOCKS[1:], ids=range(1, len(BLOCKS)))
def test_the_other_blocks_run(code: str, folder: Path) -> None:
    assert run(code, folder)
