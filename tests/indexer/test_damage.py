"""A damaged or foreign index is refused with one line, or answers as the undamaged one."""

import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from indexer.engines.open import open_index
from indexer.verify import verify_index
from sparta.errors import InputError
from tests.damage import KINDS, damage
from tests.indexer.random_postings import change_manifest
from tests.torture.tiny_index import answers


@pytest.fixture(scope="module")
def right(index: Path) -> list[Any]:
    return answers(index)


@pytest.mark.parametrize("kind", KINDS)
def test_every_damaged_file_is_named_or_harmless(
    index: Path, tmp_path: Path, right: list[Any], kind: str
) -> None:
    rng = random.Random(kind)
    names = sorted(path.relative_to(index) for path in index.rglob("*") if path.is_file())
    detected = 0
    for name in names:
        copy = shutil.copytree(index, tmp_path / "copy")
        if damage(copy / name, kind, rng):
            try:
                assert answers(copy) == right, name
            except InputError as error:
                detected += 1
                assert "\n" not in str(error), name
            try:
                problems = verify_index(copy)
            except InputError as error:  # of a manifest
                problems = [str(error)]
            assert problems, name
        shutil.rmtree(copy)
    assert detected >= len(names) - 3


@pytest.mark.parametrize("name", ["order.npy", "images.arrow"])
def test_a_damaged_header_of_a_large_file_is_one_line(
    copy: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr("indexer.manifest.HASHED_AT_OPENING", 0)
    path = copy / "segments/000001" / name
    content = path.read_bytes()
    starts = (0, 4, 12, 30) if name == "order.npy" else (len(content) - 12,)
    for start in starts:
        path.write_bytes(content[:start] + bytes(range(60, 72)) + content[start + 12 :])
        with pytest.raises(InputError, match=rf"{name} is damaged") as error:
            open_index(copy, "columns")
        assert "\n" not in str(error.value)


def test_images_of_other_columns_are_refused(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow as pa

    monkeypatch.setattr("indexer.manifest.HASHED_AT_OPENING", 0)
    monkeypatch.setattr("indexer.manifest.check_size", lambda *_: None)
    table = pa.table({"id": ["a"]})
    with pa.ipc.new_file(str(copy / "segments/000001" / "images.arrow"), table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(InputError, match=r"images\.arrow is damaged \(it has other columns\)"):
        open_index(copy, "columns")


def test_a_manifest_that_is_damaged_missing_or_of_another_format_is_named(copy: Path) -> None:
    path = copy / "manifest.json"
    whole = path.read_text()
    for fields, said in (
        ({"format_version": 1}, "format 1, this version reads 7: build the index again"),
        (
            {"format_version": 8, "package_version": "9.9"},
            "format 8, .*: upgrade VisualSparta to 9.9",
        ),
        ({"colour": "red"}, "colour"),
        ({"vocabulary": "0" * 64}, r"vocabulary .* built with 0000"),
    ):
        change_manifest(copy, **fields)
        with pytest.raises(InputError, match=said):
            open_index(copy)
        path.write_text(whole)
    path.write_text(path.read_text().replace('"bits": 8', '"bits": 9'))
    with pytest.raises(InputError, match=r"manifest\.json is damaged: .* another hash"):
        open_index(copy)
    for text in ("{", "[]", "", "[" * 100_000, "\0"):
        path.write_text(text)
        with pytest.raises(InputError, match=r"manifest\.json"):
            open_index(copy)
    path.unlink()
    with pytest.raises(InputError, match="is not an index"):
        open_index(copy)
