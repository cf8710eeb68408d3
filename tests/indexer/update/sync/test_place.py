"""Ids of photos are relative to one folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from indexer.update.sync.plan import place_of
from indexer.update.sync.seen import SeenPhotos
from sparta.errors import InputError


def test_the_folder_that_ids_are_relative_to(tmp_path: Path) -> None:
    index, built = tmp_path / "index", tmp_path / "photos"
    index.mkdir()
    for photos, root, below in (
        (built, built, ""),
        (built / "a" / "b", built, "a/b/"),
        (tmp_path / "other", tmp_path / "other", ""),
    ):
        place = place_of(index, photos, str(built))
        assert place == (root, below)
        assert place.folder == photos
    assert place_of(index, tmp_path / "x", None) == (tmp_path / "x", "")
    for known in ("photos", "other"):
        with pytest.raises(InputError, match=rf"contains .*{known}, to which ids of photos in"):
            place_of(index, tmp_path, str(built) if known == "photos" else None)
        SeenPhotos(tmp_path / "other").save(index)
    assert place_of(index, tmp_path / "other" / "a", None) == (tmp_path / "other", "a/")


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").touch()
    with pytest.raises(InputError, match=r"a.jpg is a file: give the folder"):
        place_of(tmp_path, tmp_path / "a.jpg", None)
