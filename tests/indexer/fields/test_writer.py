"""Fields of metadata and their kinds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from indexer.fields import part as part_module
from indexer.fields.part import FIELDS, FieldPart, stored_kinds
from indexer.fields.store import DECLARED, read_kinds, save_kinds
from indexer.fields.writer import FieldWriter
from sparta.errors import InputError


def part_of(images: list[dict[str, Any]], **kinds: Any) -> FieldPart:
    writer = FieldWriter(kinds)
    writer.add([f"{number}.jpg" for number in range(len(images))], images)
    return writer.part()


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, 2.5], "number"),
        ([True, None, False], "boolean"),
        ([True, 1], "keyword"),
        (["2024-01-01", "2024-01-01T10:00:00Z"], "date"),
        (["2024-01-01", "yesterday"], "keyword"),
        (["2024"], "keyword"),
        ([1, "x", {"a": 1}], "keyword"),
        ([{"lat": 1, "lon": 2}], "geo"),
        ([["a", "b"], [], "c"], "keyword"),
        ([[1, 2], 3], "number"),
        ([None, [], {"a": 1}, [[1]]], None),
    ],
)
def test_kinds_are_inferred(values: list[Any], kind: str | None) -> None:
    part = part_of([{"x": value} for value in values])
    assert ("x" in part.columns) == (kind is not None)
    if kind:
        assert part.columns["x"].kind == kind


def test_what_a_declared_kind_cannot_have_is_left_out() -> None:
    part = part_of([{"x": 1, "y": 5}, {"x": "two"}, {"x": [3, "four", 5]}], x="number", y="keyword")
    assert part.columns["x"].values.tolist() == [1, 3, 5]
    assert part.columns["x"].starts.tolist() == [0, 1, 1, 3]
    words = part.columns["y"].words
    assert words is not None and words.to_pylist() == ["5"]


def test_fields_that_every_image_has_and_those_made_of_others() -> None:
    writer = FieldWriter()
    writer.add(
        ["a/b/1.jpg", "2.jpg"],
        [{"make": "Leica", "latitude": 1, "longitude": 2.5}, {"model": "Q3", "path": "mine"}],
    )
    columns = writer.part().columns
    found = {}
    for name in ("path", "folder", "camera"):
        words = columns[name].words
        assert words is not None
        found[name] = [words[code].as_py() for code in columns[name].values.tolist()]
    assert found == {"path": ["a/b/1.jpg", "mine"], "folder": ["a/b"], "camera": ["Leica", "Q3"]}
    assert columns["location"].values.tolist() == [[1, 2.5]]


def test_no_images_have_no_fields(tmp_path: Path) -> None:
    FieldWriter().write(tmp_path)
    assert FieldPart.open(tmp_path).columns == {}


def test_damaged_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"fields\.arrow is damaged"):
        FieldPart.open(tmp_path)
    (tmp_path / FIELDS).write_bytes(b"something else")
    with pytest.raises(InputError, match=r"fields\.arrow is damaged"):
        FieldPart.open(tmp_path)


def test_declared_kinds_are_a_file(tmp_path: Path) -> None:
    save_kinds(tmp_path, {})
    assert not (tmp_path / DECLARED).exists() and read_kinds(tmp_path) == {}
    save_kinds(tmp_path, {"ä": "number"})
    assert read_kinds(tmp_path) == {"ä": "number"}
    for damaged in ("{", "[]", '{"a": "int"}', '{"a": []}'):
        (tmp_path / DECLARED).write_text(damaged)
        with pytest.raises(InputError, match=r"fields\.json is damaged"):
            read_kinds(tmp_path)


def test_the_last_results_of_a_part_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part_module, "REMEMBERED", 2)
    part = part_of([{}])
    made = [part.remembered(key, object) for key in "abcbc"]
    assert (made[1], made[2]) == (made[3], made[4])
    assert part.remembered("a", object) is not made[0]


def test_kinds_are_read_without_the_values(tmp_path: Path) -> None:
    assert stored_kinds(tmp_path) == {}
    writer = FieldWriter()
    writer.add(["1.jpg"], [{"iso": 100}])
    writer.write(tmp_path)
    assert stored_kinds(tmp_path) == {"iso": "number", "path": "keyword"}
    (tmp_path / FIELDS).write_bytes(b"damaged")
    with pytest.raises(InputError, match=r"fields\.arrow is damaged: .*; build the index again"):
        stored_kinds(tmp_path)
