"""`sparta verify` on the command line."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from indexer.commands.verify import verify
from indexer.dense.build import add_dense
from indexer.verify import verify_index
from sparta.errors import InputError
from sparta.features.store import FeatureStore
from tests.indexer.sealed import change


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_an_intact_index_and_store(
    index: Path, store: FeatureStore, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder in (index, store.folder, store.folder.parent):
        verify(folder)
        assert capsys.readouterr().out == f"{folder}: no damage\n"


def test_in_a_process_of_its_own(sparse_index: Path) -> None:
    command = [sys.executable, "-m", "sparta", "verify", str(sparse_index)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.replace("\n", "") == f"{sparse_index}: no damage"


def test_every_damaged_file_gets_a_line(
    sparse_index: Path,
    store: FeatureStore,
    dense_model: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    copy = Path(shutil.copytree(sparse_index, tmp_path / "index"))
    add_dense(copy, store, "vse", dense_model, device="cpu")
    steps: list[tuple[str, int, int]] = []
    assert verify_index(copy, lambda *step: steps.append(step)) == []
    assert [step[0] for step in steps][-2:] == ["lucene", "lucene"] and steps[0][0] == "hash"
    vectors, levels = copy / "dense" / "vse" / "vectors.faiss", copy / "columns" / "levels.npy"
    flip(vectors)
    flip(levels)
    (copy / "term_offsets.npy").unlink()
    with pytest.raises(InputError, match="index: 3 problems"):
        verify(copy)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [
        str(copy / "term_offsets.npy"),
        str(levels),
        str(vectors),
    ]
    (copy / "columns" / "manifest.json").write_text("{")
    (copy / "dense" / "vse" / "manifest.json").write_text("{")
    assert len(verify_index(copy)) == 3


def test_other_folders(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"neither an index .* nor a feature store"):
        verify(tmp_path)


def test_references_between_the_parts(index: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(index, tmp_path / "index"))
    change(copy, images=7)
    [problem] = verify_index(copy)
    assert "has 300 images, the index 7" in problem
    shutil.rmtree(copy / "columns")
    assert verify_index(copy) == []
