"""A stub of immich becomes a folder of photos with their metadata, and stays equal to it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sparta.errors import InputError
from sparta.immich.download import Downloaded, download
from sparta.immich.library import Library
from tests.sparta.immich.stub import (
    KEY,
    StubAsset,
    StubImmich,
    asset_id,
    person,
    picture,
    running,
    tag,
)

ONE, TWO, THREE, RAW, BARE = map(asset_id, range(1, 6))


@pytest.fixture
def immich() -> StubImmich:
    beach = {
        "localDateTime": "2023-07-02T18:30:00.000Z",
        "isFavorite": True,
        "people": [person("Ada"), person("")],
        "tags": [tag("holiday")],
    }
    place = {"city": "Lisbon", "country": "Portugal", "latitude": 38.7, "description": "", "iso": 9}
    return StubImmich(
        {
            ONE: StubAsset("IMG 1.heic", b"heic", picture("teal"), "image/heic", "image/jpeg"),
            TWO: StubAsset("two.jpg", picture("red"), picture("red"), fields=beach, exif=place),
            THREE: StubAsset(
                "3.png", picture("navy", "PNG"), picture("navy", "WEBP"), "image/png", "image/webp"
            ),
            RAW: StubAsset("4.dng", b"raw", picture("gold"), "image/x-adobe-dng"),
            BARE: StubAsset("5.jpg", picture("gray"), None),
        }
    )


@pytest.fixture
def address(immich: StubImmich) -> Iterator[str]:
    with running(immich.app()) as address:
        yield address


def run(address: str, out: Path, **options: Any) -> Downloaded:
    with Library(address, KEY) as library:
        return download(library, out, **options)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def names(out: Path) -> set[str]:
    return {path.name for path in (out / "photos").iterdir()}


def test_previews_and_metadata(address: str, immich: StubImmich, tmp_path: Path) -> None:
    steps: list[tuple[str, int, int]] = []
    done = run(address + "/", tmp_path, progress=lambda *step: steps.append(step))
    assert (done.photos, done.new, done.removed) == (4, 4, 0)
    assert names(tmp_path) == {f"{ONE}.jpg", f"{TWO}.jpg", f"{THREE}.webp", f"{RAW}.jpg"}
    assert (tmp_path / "photos" / f"{TWO}.jpg").read_bytes() == immich.assets[TWO].preview
    assert steps == [("download", n, total) for n, total in enumerate([2, 2, 4, 4, 5], start=1)]
    first, second, *_ = lines(tmp_path / "metadata.jsonl")
    assert second.pop("version")
    assert second == {
        "image": f"{TWO}.jpg",
        "immich_id": TWO,
        "page": f"{address}/photos/{TWO}",
        "name": "two.jpg",
        "taken": "2023-07-02T18:30:00.000Z",
        "favourite": True,
        "people": ["Ada"],
        "tags": ["holiday"],
        "city": "Lisbon",
        "country": "Portugal",
        "latitude": 38.7,
        "iso": 9,
    }
    assert first.keys() == {"image", "immich_id", "page", "name", "taken", "version"}
    reason = "immich has no picture of it"
    assert lines(tmp_path / "skipped.jsonl") == [{"id": BARE, "reason": reason}]


def test_originals(address: str, immich: StubImmich, tmp_path: Path) -> None:
    assert run(address, tmp_path).new == 4
    done = run(address, tmp_path, original=True)
    assert names(tmp_path) == {f"{ONE}.heic", f"{TWO}.jpg", f"{THREE}.png", f"{BARE}.jpg"}
    assert (done.photos, done.new, done.removed) == (4, 4, 3)
    reason = "image/x-adobe-dng is not indexed; previews are, in any case"
    assert lines(tmp_path / "skipped.jsonl") == [{"id": RAW, "reason": reason}]


def test_only_what_has_changed_is_downloaded_again(
    address: str, immich: StubImmich, tmp_path: Path
) -> None:
    run(address, tmp_path)
    (tmp_path / "photos" / "own.jpg").write_bytes(b"not immich's")
    immich.pictures.clear()
    assert run(address, tmp_path).new == 0
    assert immich.pictures == [f"{BARE}/thumbnail"]
    immich.assets[TWO].preview = picture("lime")  # edited
    immich.assets[THREE].fields["isFavorite"] = True
    del immich.assets[ONE]
    done = run(address, tmp_path)
    assert (done.photos, done.new, done.removed) == (3, 1, 1)
    assert (tmp_path / "photos" / f"{TWO}.jpg").read_bytes() == picture("lime")
    assert names(tmp_path) == {f"{TWO}.jpg", f"{THREE}.webp", f"{RAW}.jpg", "own.jpg"}
    assert lines(tmp_path / "metadata.jsonl")[1]["favourite"] is True


def test_an_interrupted_run_continues(address: str, immich: StubImmich, tmp_path: Path) -> None:
    immich.broken.add(f"{THREE}/thumbnail")
    with pytest.raises(InputError, match=r"answered 500 to /api/assets/.*run the command again"):
        run(address, tmp_path)
    assert names(tmp_path) == {f"{ONE}.jpg", f"{TWO}.jpg"}
    assert not (tmp_path / "metadata.jsonl").exists()
    immich.broken.clear()
    done = run(address, tmp_path)
    assert (done.photos, done.new) == (4, 2)
    assert len(lines(tmp_path / "metadata.jsonl")) == 4


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 1 is damaged: delete the file"),
        ('{"image": "a.jpg"}', "line 1 is damaged"),
        ('{"image": "../a.jpg", "version": "x"}', r"'\.\./a\.jpg' is not the name of a picture"),
    ],
)
def test_damaged_metadata(address: str, tmp_path: Path, line: str, message: str) -> None:
    (tmp_path / "metadata.jsonl").write_text(line + "\n")
    with pytest.raises(InputError, match=message):
        run(address, tmp_path)


def test_a_folder_in_the_place_of_a_picture_stays(
    address: str, immich: StubImmich, tmp_path: Path
) -> None:
    first = run(address, tmp_path)
    name = min(names(tmp_path))
    (tmp_path / "photos" / name).unlink()
    (tmp_path / "photos" / name / "mine").mkdir(parents=True)
    for _ in range(2):
        done = run(address, tmp_path)
        assert (done.photos, done.removed) == (first.photos - 1, 0)
        assert any("a folder has the name" in one.reason for one in done.skipped)
    assert (tmp_path / "photos" / name / "mine").is_dir()
