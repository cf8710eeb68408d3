"""The kind of a field: fixed for what photos' files say, else the narrowest that fits all values.

The same however the values came: at the build, live, into shards, and after a restart.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unicodedata import normalize

import pytest

from indexer.engines.open import open_index
from indexer.filters.syntax import parse_filter, read_filter
from indexer.maintenance.combine import merge_indexes, split_index
from indexer.store.changes import Change, Delete, MetadataChange
from indexer.store.snapshot import Snapshot
from indexer.update.writer import open_writer
from tests.indexer.random_postings import random_postings, write_postings
from tests.indexer.vocabulary import TOKENIZER

POINT = {"lat": 48.85, "lon": 2.35}
Values = list[Any]


def index_of(folder: Path, values: Values, field: str = "x") -> Path:
    """An index of images of which the first have these values."""
    images = random_postings(TOKENIZER, max(12, len(values)), seed=2)
    own: list[dict[str, Any]] = [{field: one} for one in values]
    own += [{} for _ in images.ids[len(values) :]]
    write_postings(folder, [replace(images, metadata=own)], TOKENIZER)
    return folder


def change(index: Path, values: Values, field: str = "x") -> None:
    """Give the last images of an index values, one after another."""
    ids = sorted(open_index(index).ids(), reverse=True)
    with open_writer(index) as writer:
        for image_id, value in zip(ids, values, strict=False):
            writer.write([MetadataChange(image_id, {field: value})])
            writer.commit()


def built(folder: Path, before: Values, after: Values) -> Path:
    return index_of(folder / "index", [*before, *after])


def live(folder: Path, before: Values, after: Values) -> Path:
    change(index := index_of(folder / "index", before), after)
    return index


def merged(folder: Path, before: Values, after: Values) -> Path:
    index = live(folder, before, after)
    with open_writer(index) as writer:
        writer.merge()
    return index


def sharded(folder: Path, before: Values, after: Values) -> Path:
    split_index(index_of(folder / "whole", before), folder / "index", 3)
    change(folder / "index", after)
    return folder / "index"


def split_after(folder: Path, before: Values, after: Values) -> Path:
    split_index(built(folder / "whole", before, after), folder / "index", 3)
    return folder / "index"


@pytest.mark.parametrize("make", [built, live, merged, sharded, split_after])
@pytest.mark.parametrize(
    ("before", "after", "kind", "found"),
    [
        (["2019-05-04"], ["2020-01-02"], "date", {"x:2019": 1, "x:>=2020": 1}),
        (["2019-05-04"], ["in the garden"], "keyword", {"x:garden": 1, "x:2019-05-04": 1}),
        ([17, 18.5], ["17b"], "keyword", {"x:17b": 1, "x:17": 1, "x:18.5": 1}),
        ([True], ["perhaps", 3], "keyword", {"x:true": 1, "x:perhaps": 1, "x:3": 1}),
        ([POINT], ["Paris"], "keyword", {"x:paris": 1, 'x:="48.85,2.35"': 1}),
        (["2019-05-04"], [7], "keyword", {"x:7": 1, "x:=2019-05-04": 1}),
        ([[1, 2], 3], [["a", 2]], "keyword", {"x:a": 1, "x:2": 2}),
        ([2**53 + 1], [1], "keyword", {f"x:{2**53 + 1}": 1, "x:1": 1}),
        ([1], [2, None], "number", {"x:1..2": 2}),
    ],
)
def test_a_field_widens_and_loses_no_value(
    tmp_path: Path,
    make: Callable[[Path, Values, Values], Path],
    before: Values,
    after: Values,
    kind: str,
    found: dict[str, int],
) -> None:
    searcher = open_index(make(tmp_path, before, after))
    assert searcher.kinds()["x"] == kind
    assert {text: searcher.count(parse_filter(text)) for text in found} == found


def test_a_running_searcher_and_a_new_one_agree(tmp_path: Path) -> None:
    """Also where a value that did not fit was overwritten or deleted before anybody saw it."""
    index = index_of(tmp_path / "index", [1])
    running, ids = Snapshot.open(index), sorted(open_index(index).ids())
    steps: list[list[Change]] = [
        [MetadataChange(ids[3], {"x": "text"})],
        [MetadataChange(ids[3], {"x": 3}), MetadataChange(ids[4], {"x": "2020-01-02"})],
        [Delete(ids[4])],
    ]
    for changes, kind in zip(steps, ["keyword", "keyword", "number"], strict=True):
        with open_writer(index) as writer:
            writer.write(changes)
        running = running.refreshed() or running
        for snapshot in (running, Snapshot.open(index)):
            assert snapshot.kinds["x"] == snapshot.field_index().kind("x") == kind


@pytest.mark.parametrize(
    ("field", "values", "kind"),
    [
        ("taken", ["2015-08-22T24:08:19", "2024-07-14T10:20:30"], "date"),
        ("description", ["2019-05-04"], "keyword"),
        ("model", [5], "keyword"),
        ("rating", ["five", 4], "number"),
        ("tags", [["2019-05-04"], [7]], "keyword"),
    ],
)
@pytest.mark.parametrize("first", [0, 1])
def test_what_photos_say_has_fixed_kinds(
    tmp_path: Path, field: str, values: Values, kind: str, first: int
) -> None:
    index = index_of(tmp_path / "index", values[first:], field)
    change(index, values[:first], field)
    assert open_index(index).kinds()[field] == kind


def test_a_merged_index_has_the_kinds_of_all(tmp_path: Path) -> None:
    whole = index_of(tmp_path / "whole", [1, "a", 2, "b"])
    split_index(whole, tmp_path / "divided", 2)
    shards = sorted(path for path in (tmp_path / "divided").iterdir() if path.is_dir())
    merge_indexes(shards, tmp_path / "all")
    for index in (whole, tmp_path / "divided", tmp_path / "all"):
        found = open_index(index)
        assert found.kinds()["x"] == "keyword" and found.count(parse_filter("x:1|a")) == 2


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_texts_are_found_however_they_were_composed(tmp_path: Path, form: Any) -> None:
    texts = [normalize("NFD", "Café"), normalize("NFC", "café"), normalize("NFD", "부산"), "Cafe"]
    index = index_of(tmp_path / "index", texts[:1])
    change(index, texts[1:])
    found = open_index(index)
    counts = {"x:café": 2, "x:부산": 1, "x:=CAFÉ": 2, "x:부*": 1, "x:caf*": 3, "-x:café x:*": 2}
    for text, count in counts.items():
        assert found.count(parse_filter(normalize(form, text))) == count, text
    asked = {"key": "x", "match": {"any": [normalize(form, "café"), normalize(form, "부산")]}}
    assert found.count(read_filter(asked)) == 3
