"""Which photos are added, and under which ids."""

from __future__ import annotations

from pathlib import Path

import pytest

from indexer.update.sources import choose_photos
from sparta.errors import InputError
from tests.bad_paths import add_bad_paths


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    folder = tmp_path / "pictures"
    for name in ("a.jpg", "2024/b.png", "2024/beach/c.JPG", "2024/notes.txt"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    return folder


def test_ids_are_relative_to_the_folder_of_the_index(
    pictures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    year = pictures / "2024"
    assert choose_photos([year], str(pictures)) == (pictures, ["2024/b.png", "2024/beach/c.JPG"])
    monkeypatch.chdir(pictures)
    found = choose_photos([Path("a.jpg"), year / "beach", year / "beach" / "c.JPG"], ".")
    assert found == (pictures, ["2024/beach/c.JPG", "a.jpg"])


def test_a_link_to_a_photo_has_its_own_name(pictures: Path) -> None:
    (pictures / "link.jpg").symlink_to(pictures / "2024" / "b.png")
    assert choose_photos([pictures / "link.jpg"], str(pictures)).ids == ["link.jpg"]


def test_ids_of_others_are_relative_to_their_one_folder(pictures: Path, tmp_path: Path) -> None:
    for recorded in (None, str(tmp_path / "elsewhere")):
        whole = choose_photos([pictures], recorded)
        assert whole == (pictures, ["2024/b.png", "2024/beach/c.JPG", "a.jpg"])
        assert choose_photos([pictures / "a.jpg"], recorded) == (pictures, ["a.jpg"])
        with pytest.raises(InputError, match=r"2024 and .*beach are not both in the folder that"):
            choose_photos([pictures / "2024", pictures / "2024" / "beach"], recorded)


def test_what_is_not_there_is_named(pictures: Path) -> None:
    with pytest.raises(InputError, match=r"away.jpg does not exist"):
        choose_photos([pictures / "away.jpg"], None)
    (pictures / "empty").mkdir()
    with pytest.raises(InputError, match=r"empty holds no photo"):
        choose_photos([pictures / "empty"], str(pictures))


def test_paths_that_cannot_be_read_are_left_to_the_report(pictures: Path) -> None:
    reasons = add_bad_paths(pictures)
    given = [one for one in pictures.iterdir() if one.is_symlink() or one.is_fifo()]
    given.append(pictures / ("n" * 300 + ".jpg"))
    chosen = choose_photos([one for one in given if one.name != "parent.jpg"], str(pictures))
    assert {"self.jpg", "dangling.jpg", "pipe.jpg", given[-1].name} <= set(chosen.ids)
    assert reasons.keys() - set(choose_photos([pictures], None).ids) == {"caf\\xe9.jpg"}
