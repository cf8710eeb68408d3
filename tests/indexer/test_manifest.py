"""A damaged or foreign index is refused with what is wrong."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from indexer.lucene.reader import LuceneIndex
from indexer.search.lucene import LuceneSearcher
from indexer.search.open import open_index
from sparta.errors import InputError
from tests.indexer.sealed import change


@pytest.fixture
def copy(index: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(index, tmp_path / "copy"))


def test_a_whole_copy_opens(copy: Path) -> None:
    assert len(LuceneSearcher(copy)) == 300


def test_no_index(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not an index"):
        LuceneSearcher(tmp_path)


def test_other_format(copy: Path) -> None:
    change(copy, format_version=1)
    with pytest.raises(InputError, match="format 1, this version reads 5"):
        LuceneSearcher(copy)


def test_other_fields(copy: Path) -> None:
    change(copy, colour="red")
    with pytest.raises(InputError, match="colour"):
        LuceneSearcher(copy)


def test_a_damaged_field(copy: Path) -> None:
    path = copy / "manifest.json"
    path.write_text(path.read_text().replace('"bits": 8', '"bits": 9'))
    with pytest.raises(InputError, match=r"manifest\.json is damaged: .* another hash"):
        LuceneSearcher(copy)


@pytest.mark.parametrize("text", ["{", "[]", "", "[" * 100_000, "\0"])
def test_manifest_not_readable(copy: Path, text: str) -> None:
    (copy / "manifest.json").write_text(text)
    with pytest.raises(InputError, match=r"manifest\.json"):
        LuceneSearcher(copy)


def test_other_vocabulary(copy: Path) -> None:
    change(copy, vocabulary="0" * 64)
    with pytest.raises(InputError, match=r"vocabulary .* built with 0000"):
        LuceneSearcher(copy)


def test_every_missing_or_truncated_part_is_found(copy: Path, tmp_path: Path) -> None:
    parts = [path for path in copy.rglob("*") if path.is_file() and path.name != "manifest.json"]
    assert {"tokenizer.json", "term_offsets.npy"} < {path.name for path in parts}
    for part in parts:
        content = part.read_bytes()
        part.write_bytes(content[:-1])
        with pytest.raises(InputError, match=f"{part.name} has .* bytes instead of"):
            open_index(copy)
        part.unlink()
        with pytest.raises(InputError, match=f"{part.name} is missing"):
            open_index(copy)
        part.write_bytes(content)


def test_lucene_that_cannot_be_read(copy: Path) -> None:
    for path in (copy / "lucene").iterdir():
        path.write_bytes(b"\0" * path.stat().st_size)
    with pytest.raises(InputError, match="cannot be opened"):
        LuceneIndex(copy / "lucene")
