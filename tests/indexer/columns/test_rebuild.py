"""Columns are made again from Lucene, and images are found by number and id."""

from __future__ import annotations

import shutil
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from indexer.columns import image_table
from indexer.store.images import ImageTable
from indexer.columns.layout import Columns
from indexer.columns.manifest import FOLDER, FORMAT_VERSION, ColumnManifest, columns_fit
from indexer.columns.rebuild import rebuild_columns
from indexer.columns.writer import ImageWriter
from indexer.manifest import Manifest
from indexer.parts import LUCENE, describe_parts
from indexer.postings import Postings
from indexer.search.api import UnknownImageError
from indexer.search.open import open_index
from sparta.errors import InputError
from tests.indexer.lucene.written import edit_lucene
from tests.indexer.vocabulary import COMMON


def test_columns_read_back_are_those_that_were_built(copy: Path, index: Path) -> None:
    shutil.rmtree(copy / FOLDER)
    laid_out: list[tuple[str, int, int]] = []
    rebuild_columns(copy, lambda *step: laid_out.append(step))
    assert laid_out[-1] == ("columns", 300, 300)
    assert sorted(path.name for path in copy.iterdir()) == sorted(p.name for p in index.iterdir())
    built, again = (Columns.map(folder / FOLDER) for folder in (index, copy))
    for name, one, other in zip(Columns._fields, built, again, strict=True):
        np.testing.assert_array_equal(one, other, err_msg=name)
    assert columns_fit(copy)


def test_columns_of_another_format_can_be_made_again(index: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(index, tmp_path / "index") / FOLDER
    manifest = folder / "manifest.json"
    own, former = (f'"format_version": {number}' for number in (FORMAT_VERSION, 2))
    manifest.write_text(manifest.read_text().replace(own, former))
    with pytest.raises(InputError, match=r"has index format 2, .*: delete .* again from Lucene"):
        ColumnManifest.open(folder)


def test_the_columns_of_an_index_do_not_find_what_lucene_has_deleted(
    copy: Path, index: Path, postings: Postings
) -> None:
    shutil.rmtree(copy / FOLDER)
    edit_lucene(copy / LUCENE, [], [postings.ids[7]])
    manifest = Manifest.open(index)
    replace(manifest, images=299, parts=describe_parts(copy)).save(copy)
    with (
        closing(open_index(copy, "columns")) as searcher,
        closing(open_index(copy, "lucene")) as lucene,
    ):
        assert len(searcher) == 299
        for query in (COMMON, "dog beach the the", "red cat dogs"):
            hits = searcher.search(query, 300).hits
            assert hits == lucene.search(query, 300).hits != []
        assert searcher.metadata(postings.ids[8]) == postings.metadata[8]
        with pytest.raises(UnknownImageError):
            searcher.metadata(postings.ids[7])


@pytest.mark.parametrize("batch", [1, 3, 50])
def test_every_image_is_found_by_number_and_by_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    monkeypatch.setattr(image_table, "REMEMBERED", 3)
    ids = sorted(["é/1.jpg", "a\0.jpg", "a", "𝄞.jpg", "\uffff.jpg", *map(str, range(40))])
    writer = ImageWriter(tmp_path)
    writer.add([], [])
    for start in range(0, len(ids), batch):
        part = ids[start : start + batch]
        writer.add(part, [{"width": len(one)} for one in part])
    writer.close()
    table = ImageTable(tmp_path)
    for number, image_id in enumerate([*ids, *ids]):
        assert table.stored(number % len(ids)) == (image_id, {"width": len(image_id)})
        assert table.document(image_id) == number % len(ids)
    for beyond in (-1, len(ids)):
        with pytest.raises(IndexError):
            table.stored(beyond)
    for absent in ("", "a\0", "b", "é/2.jpg", "\ud800", "9z", "\U0010ffff"):
        assert table.document(absent) is None
