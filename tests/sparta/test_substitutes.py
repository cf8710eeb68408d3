"""The table of substitutes on disk."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sparta.errors import InputError
from sparta.substitutes import SUBSTITUTES, Substitute, SubstituteTable


def test_a_table_is_read_as_written(tmp_path: Path) -> None:
    words = {"sloop": (Substitute("boat", 0.67), Substitute("ship", 0.5)), "köter": ()}
    SubstituteTable(words).save(tmp_path)
    assert SubstituteTable.open(tmp_path).words == words
    assert len(SubstituteTable(words)) == 2
    lines = (tmp_path / SUBSTITUTES).read_text(encoding="utf-8").splitlines()
    assert lines[1:3] == ['"köter": [],', '"sloop": [["boat", 0.67], ["ship", 0.5]]']


def test_a_folder_without_a_table_has_an_empty_one(tmp_path: Path) -> None:
    table = SubstituteTable.open(tmp_path)
    assert len(table) == 0
    table.save(tmp_path)
    assert SubstituteTable.open(tmp_path) == table


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "[]",
        json.dumps({"words": {}}),
        json.dumps({"format_version": 2, "words": {}}),
        json.dumps({"format_version": 1}),
        json.dumps({"format_version": 1, "words": []}),
        json.dumps({"format_version": 1, "words": {"sloop": [["boat"]]}}),
        json.dumps({"format_version": 1, "words": {"sloop": [["boat", "near"]]}}),
    ],
)
def test_another_format_or_a_damaged_file_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / SUBSTITUTES).write_text(content)
    with pytest.raises(InputError, match="not a table of substitutes of format 1"):
        SubstituteTable.open(tmp_path)


def test_what_was_read_is_parsed_when_it_is_needed(tmp_path: Path) -> None:
    table = SubstituteTable({"sloop": (Substitute("boat", 0.5),)})
    table.save(tmp_path)
    read = SubstituteTable.reading(tmp_path)
    (tmp_path / SUBSTITUTES).write_text("{")  # replaced meanwhile
    assert read() == table
    assert read() is read()
    damaged = SubstituteTable.reading(tmp_path)
    with pytest.raises(InputError, match="not a table of substitutes"):
        damaged()
