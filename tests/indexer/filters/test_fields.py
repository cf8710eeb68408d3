"""Metadata from files, the kinds of their values, the periods that dates name, columns on disk."""

import sys
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from indexer.fields.columns import FIELDS, FieldPart, FieldWriter, part_of, stored_kinds
from indexer.fields.kinds import (
    DECLARED,
    declared_kinds,
    microseconds,
    period,
    read_kinds,
    save_kinds,
    stored_date,
)
from indexer.metadata import read_metadata
from sparta.errors import InputError


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("2024", datetime(2024, 1, 1), datetime(2025, 1, 1)),
        ("2024-02", datetime(2024, 2, 1), datetime(2024, 3, 1)),
        ("2024-12", datetime(2024, 12, 1), datetime(2025, 1, 1)),
        ("2024-02-29", datetime(2024, 2, 29), datetime(2024, 3, 1)),
        ("2024-02-29 23:59", datetime(2024, 2, 29, 23, 59), datetime(2024, 3, 1)),
        ("2024-02-29T23:59:59Z", datetime(2024, 2, 29, 23, 59, 59), datetime(2024, 3, 1)),
        ("2024-02-29T12:00+02:00", datetime(2024, 2, 29, 12), datetime(2024, 2, 29, 12, 1)),
        (
            "1969-07-20T20:17:40.5-0500",
            datetime(1969, 7, 20, 20, 17, 40, 500_000),
            datetime(1969, 7, 20, 20, 17, 40, 600_000),
        ),
        (
            "2024-01-01T00:00:00.1234567",
            datetime(2024, 1, 1, 0, 0, 0, 123_456),
            datetime(2024, 1, 1, 0, 0, 0, 123_457),
        ),
    ],
)
def test_a_date_names_a_period(text: str, start: datetime, end: datetime) -> None:
    assert period(text) == (microseconds(start), microseconds(end))


@pytest.mark.parametrize(
    "text",
    ["", "24", "2024-", "2024-13", "2023-02-29", "0000", "2024-01-01T25", "2024-06-1", "٢٠٢٤"],
)
def test_a_text_that_is_no_date_names_no_period(text: str) -> None:
    assert period(text) is stored_date(text) is None


def test_the_last_period_ends_where_time_ends() -> None:
    found = [period(text) for text in ("9999", "9999-12", "9999-12-31T23:59:59")]
    assert {one and one.end for one in found} == {microseconds(datetime.max) + 1}


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, 2.5], "number"),
        ([True, None, False], "boolean"),
        (["2024-01-01", "2024-01-01T10:00:00Z"], "date"),
        (["2024-01-01", "yesterday"], "keyword"),
        (["2024", "2024-06"], "keyword"),
        ([1, "x", {"a": 1}], "keyword"),
        ([{"lat": 1, "lon": 2}], "geo"),
        ([["a", "b"], [], "c"], "keyword"),
        ([[1, 2], 3], "number"),
        ([None, [], {"a": 1}, [[1]]], None),
    ],
)
def test_the_kind_of_a_field_is_inferred_from_all_its_values(
    values: list[Any], kind: str | None
) -> None:
    part = part_of([("a.jpg", {"x": value}) for value in values])
    assert ("x" in part.columns) == (kind is not None)
    assert kind is None or part.columns["x"].kind == kind


NO_POINTS = [{"lat": 1}, {"lat": 91, "lon": 1}, {"lat": 1, "lon": 181}, {"lat": "1", "lon": 1}]


@pytest.mark.parametrize(
    ("kind", "values", "kept"),
    [
        (
            "number",
            [1, "1", True, float("nan"), float("inf"), 10**400, None, [3, "x", 5]],
            [1, 3, 5],
        ),
        ("keyword", ["x", 1, 1.5, True, None, "\ud800", []], ["x", "1", "1.5", "true"]),
        ("geo", [*NO_POINTS, [1, 2], "1,2", {"lat": -90, "lon": 180}], [[-90, 180]]),
        ("date", ["2024-06-01", "2024", 1], [microseconds(datetime(2024, 6, 1))]),
        ("boolean", [True, 1, "true"], [True]),
    ],
)
def test_values_that_a_declared_kind_cannot_have_are_left_out(
    kind: Any, values: list[Any], kept: list[Any]
) -> None:
    column = part_of([(str(i), {"x": one}) for i, one in enumerate(values)], {"x": kind}).columns[
        "x"
    ]
    words = column.words
    found = column.values.tolist()
    assert (found if words is None else [words[code].as_py() for code in found]) == kept
    fitting = [bool(end - start) for start, end in pairwise(column.starts)]
    assert fitting.count(True) == len(kept) - (kind == "number")  # the list has two


def test_kinds_are_declared_as_field_and_kind() -> None:
    declared = {"rating": "number", "a=b": "keyword"}
    assert declared_kinds(["rating=number", "a=b=keyword"]) == declared
    for text in ("rating", "rating=int", "=number"):
        with pytest.raises(InputError, match=f"--field {text}: give a field and its kind"):
            declared_kinds([text])


def test_damaged_files_of_fields_and_of_declared_kinds_are_named(tmp_path: Path) -> None:
    save_kinds(tmp_path, {})
    assert not (tmp_path / DECLARED).exists() and read_kinds(tmp_path) == {}
    save_kinds(tmp_path, {"ä": "number"})
    assert read_kinds(tmp_path) == {"ä": "number"}
    for damaged in ("{", "[]", '{"a": "int"}', '{"a": []}'):
        (tmp_path / DECLARED).write_text(damaged)
        with pytest.raises(InputError, match=r"fields\.json is damaged"):
            read_kinds(tmp_path)
    assert stored_kinds(tmp_path) == {}
    with pytest.raises(InputError, match=r"fields\.arrow is damaged"):
        FieldPart.open(tmp_path)
    writer = FieldWriter()
    writer.add(["1.jpg"], [{"iso": 100}])
    writer.write(tmp_path)
    assert stored_kinds(tmp_path) == {"iso": "number", "path": "keyword"}
    (tmp_path / FIELDS).write_bytes(b"something else")
    for read in (stored_kinds, FieldPart.open):
        with pytest.raises(InputError, match=r"fields\.arrow is damaged"):
            read(tmp_path)


def test_tables_are_read_as_lines_are(tmp_path: Path) -> None:
    text = 'image,iso,f,late,tags,note\n007,400,2.8,true,007,"a\nb"\nx.jpg,,,,,\n'
    lines = '{"image": "garden/one.png", "taken": "2024", "tags": ["a"]}\n{"image": "x.jpg"}\n'
    (tmp_path / "m.jsonl").write_text(lines, encoding="utf-8")
    found = {"garden/one.png": {"taken": "2024", "tags": ["a"]}, "x.jpg": {}}
    assert read_metadata(tmp_path / "m.jsonl") == found
    (tmp_path / "m.csv").touch()
    assert read_metadata(tmp_path / "m.csv") == {}
    (tmp_path / "m.csv").write_text("\ufeff" + text, encoding="utf-8")
    fields = {"iso": 400, "f": 2.8, "late": True, "tags": "007", "note": "a\nb"}
    assert read_metadata(tmp_path / "m.csv") == {"007": fields, "x.jpg": {}}
    rows = [
        {"image": "a.jpg", "taken": datetime(2024, 5, 1, 8, 30), "tags": ["x", "y"], "n": 1},
        {"image": "b.jpg", "taken": None, "tags": [], "n": None},
    ]
    parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "m.parquet")
    assert read_metadata(tmp_path / "m.parquet") == {
        "a.jpg": {"taken": "2024-05-01T08:30:00", "tags": ["x", "y"], "n": 1},
        "b.jpg": {"tags": []},
    }


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("m.csv", b"image,a\nx.jpg\n", "line 2 has 1 cells, the first line 2"),
        ("m.csv", b'image\n"x', "line 2 is not CSV"),
        ("m.csv", b"image,width\nx,1\n", "line 2: width is the photo's"),
        ("m.jsonl", b'{"image": "a"}\n{', "line 2 is not JSON"),
        ("m.jsonl", b"[]", 'line 1 is not an object with "image": the image id'),
        ("m.jsonl", b'{"image": "a"}\n{"image": "a"}', "line 2: 'a' is there twice"),
        ("m.jsonl", b"\xff", "is not a text file in UTF-8"),
        ("m.parquet", b"something else", "is not Parquet"),
        ("m.parquet", None, r"row 1: .*; convert the column"),
    ],
)
def test_damaged_files_of_metadata_are_named(
    tmp_path: Path, name: str, content: bytes | None, message: str
) -> None:
    path = tmp_path / name
    if content is None:
        parquet.write_table(pa.Table.from_pylist([{"image": "a", "x": b"bytes"}]), path)
    else:
        path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_metadata(path)


def test_parquet_is_refused_by_name_where_its_library_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(pa, "parquet")
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(InputError, match=r"m\.parquet .*Parquet cannot be read here"):
        read_metadata(tmp_path / "m.parquet")
