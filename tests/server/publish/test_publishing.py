"""Sites: what is published and what is not, again and again, and after a kill."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import ExifTags, Image, ImageOps, PngImagePlugin
from playwright.sync_api import Browser
from typer.testing import CliRunner

from indexer.postings import Postings
from server.publish.photos import Pictures, stripped
from server.publish.publishing import Choices, publish
from sparta.command_line import cli
from sparta.errors import InputError
from sparta.tokenizer import TermTokenizer
from tests.indexer.random_postings import random_postings, write_postings
from tests.server.publish.collections import hosting

SECRET = "Leica of Aunt Agatha"
PICTURES = Pictures((64, 512))


@pytest.fixture(scope="module")
def folder(tokenizer: TermTokenizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an index of twelve photos, one of which is missing and one damaged."""
    folder = tmp_path_factory.mktemp("album")
    rows = list(random_postings(tokenizer, 12, seed=2))
    exif = Image.Exif()
    exif[ExifTags.Base.Model] = SECRET
    for i, row in enumerate(rows):
        pixels = np.random.default_rng(i).integers(0, 255, (30, 100 + 60 * i, 3), np.uint8)
        path = folder / "photos" / row.image_id
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(path, exif=exif)
        own = {"width": 100 + 60 * i, "height": 30, "model": SECRET, "latitude": 48.1, "rating": i}
        rows[i] = replace(row, metadata=own)
    (folder / "photos" / rows[3].image_id).unlink()
    (folder / "photos" / rows[4].image_id).write_bytes(b"no photo")
    write_postings(folder / "index", [Postings.of(rows)], tokenizer)
    return folder


def published(folder: Path, out: Path, **choices: object) -> dict[str, bytes]:
    """The files of a site."""
    given = {"photos": folder / "photos", "pictures": PICTURES} | choices
    publish(folder / "index", out, Choices(**given))  # type: ignore[arg-type]
    files = (path for path in out.rglob("*") if path.is_file())
    return {path.relative_to(out).as_posix(): path.read_bytes() for path in files}


@pytest.fixture(scope="module")
def album(folder: Path) -> Iterator[dict[str, bytes]]:
    yield published(folder, folder / "album")


def test_again_nothing_is_written(folder: Path, album: dict[str, bytes]) -> None:
    choices = Choices(photos=folder / "photos", pictures=PICTURES)
    report = publish(folder / "index", folder / "album", choices)
    assert (report.rewritten, report.removed) == ([], [])
    assert report.withheld == ["latitude", "model", "rating"]
    assert [one.image_id for one in report.skipped] == ["a/00003 é.jpg", "a/00004 é.jpg"]
    assert set(report.sizes) == set(album)
    pictures = [Path(path).name for path in album if path.startswith("photos/")]
    assert sum(name.startswith("64-") for name in pictures) == 10  # all are wider
    assert sum(name.startswith("512-") for name in pictures) == 10


def test_fields_that_filters_know_can_be_published(folder: Path, tmp_path: Path) -> None:
    """What follows from metadata, under the name that the server lists."""
    files = published(folder, tmp_path / "site", fields=("camera",))
    fields = json.loads(files[next(name for name in files if "index.json" in name)])["fields"]
    assert "camera" in str(fields) and "model" not in fields


def test_only_what_changed_is_written_and_removed(folder: Path, tmp_path: Path) -> None:
    before = published(folder, tmp_path / "site", fields=("rating",))
    (tmp_path / "site" / "photos" / "mine.txt").write_text("not of the site")
    after = published(folder, tmp_path / "site")
    gone = set(before) - set(after)
    assert gone
    assert all(path.startswith("index/") for path in gone)
    assert after.pop("photos/mine.txt") == b"not of the site"
    same = {path for path in set(before) & set(after) if before[path] == after[path]}
    changed = {Path(path).name.partition("-")[0] for path in set(after) - same}
    # The page names the first files of the index, and the service worker the state of the page.
    assert changed == {"records", "index.json", "index.html", "sw.js"}


def test_nothing_private_is_in_any_file(folder: Path, album: dict[str, bytes]) -> None:
    assert not any(SECRET.encode() in content for content in album.values())
    for path, content in album.items():
        if path.startswith("photos/"):
            (folder / "look.webp").write_bytes(content)
            assert not Image.open(folder / "look.webp").getexif()


def test_originals_without_exif_are_other_files(folder: Path, tmp_path: Path) -> None:
    def pictures(exif: bool) -> dict[str, bytes]:
        chosen = replace(PICTURES, originals=True, exif=exif)
        files = published(folder, tmp_path / "site", pictures=chosen)
        found = {path: content for path, content in files.items() if path.startswith("photos/")}
        originals = [content for path, content in found.items() if "original-" in path]
        assert len(originals) == 10
        assert all((SECRET.encode() in content) == exif for content in originals)
        return found

    whole, without = pictures(True), pictures(False)
    assert without.keys().isdisjoint(whole)
    assert not any(SECRET.encode() in content for content in without.values())


def test_ids_are_hashes_and_fields_are_chosen(folder: Path, browser: Browser) -> None:
    published(folder, folder / "hashed", id_key="k", fields=("rating",))
    with hosting(folder / "hashed") as address:
        page = browser.new_page(base_url=address)
        page.goto("/sw.js")
        [found] = page.evaluate(
            "async () => { const { open } = await import('/search/index.js');"
            " return [await (await open('/index/')).search('the', { k: 20 })]; }"
        )
        page.close()
    ids = [hit["image_id"] for hit in found["hits"]]
    assert len(set(ids)) == 12
    assert all(len(one) == 16 and int(one, 16) >= 0 for one in ids)
    assert {name for hit in found["hits"] for name in hit["metadata"]} == {
        *("width", "height", "rating")
    }


def test_a_killed_run_goes_on(folder: Path, album: dict[str, bytes], tmp_path: Path) -> None:
    out = tmp_path / "site"
    command = [sys.executable, "-m", "sparta", "publish", str(folder / "index")]
    command += ["--out", str(out), "--photos", str(folder / "photos"), "--size", "64"]
    process = subprocess.Popen([*command, "--size", "512"], stderr=subprocess.DEVNULL)
    while not list(out.glob("photos/*.webp")) and process.poll() is None:
        time.sleep(0.005)
    process.kill()
    process.wait()
    assert (out / ".publishing").is_file()
    assert published(folder, out) == album


def test_a_folder_of_something_else_is_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="files of something else: give a new folder"):
        publish(folder / "index", tmp_path, Choices())
    with pytest.raises(InputError, match="--field shutter: no image has it; there is"):
        publish(folder / "index", tmp_path / "site", Choices(fields=("shutter",)))
    assert not (tmp_path / "site" / "photos").exists()  # before pictures are made


def test_photos_that_cannot_be_read_are_named_with_the_reason(folder: Path, tmp_path: Path) -> None:
    arguments = [folder / "index", "--photos", folder / "photos", "--out", tmp_path / "site"]
    done = CliRunner().invoke(cli, ["publish", *map(str, arguments)])
    assert done.exit_code == 0, done.output
    assert "2 photos are missing or damaged: " in done.output
    for text in ("its file is missing", "is not a photo"):
        assert text in done.output


ADDRESS = b"47 Private Road"


def photo() -> Image.Image:
    return Image.fromarray(np.random.default_rng(0).integers(0, 255, (40, 60, 3), np.uint8))


def exif(orientation: int = 1) -> Image.Exif:
    made = Image.Exif()
    made[ExifTags.Base.ImageDescription] = ADDRESS.decode()
    made[ExifTags.Base.Orientation] = orientation
    made.get_ifd(ExifTags.IFD.GPSInfo)[ExifTags.GPS.GPSLatitude] = (48.0, 8.0, 1.0)
    return made


def encoded(kind: str, **options: object) -> bytes:
    out = BytesIO()
    photo().save(out, kind, **options)
    return out.getvalue()


@pytest.mark.parametrize("progressive", [False, True])
@pytest.mark.parametrize("orientation", [1, 6])
def test_jpeg(progressive: bool, orientation: int) -> None:
    options = {"exif": exif(orientation), "comment": ADDRESS, "xmp": b"<x>" + ADDRESS}
    original = encoded("JPEG", progressive=progressive, icc_profile=b"colours", **options)
    found = stripped(original + b"hidden video" + ADDRESS)
    assert found is not None
    content, suffix = found
    assert (suffix, ADDRESS in original, ADDRESS in content) == (".jpg", True, False)
    assert b"hidden video" not in content
    before, after = Image.open(BytesIO(original)), Image.open(BytesIO(content))
    assert after.info["icc_profile"] == b"colours"
    assert dict(after.getexif()) == ({ExifTags.Base.Orientation: 6} if orientation == 6 else {})
    right, found_pixels = (np.asarray(ImageOps.exif_transpose(one)) for one in (before, after))
    assert np.array_equal(found_pixels, right)


@pytest.mark.parametrize("kind", ["PNG", "WEBP"])
def test_png_and_webp(kind: str) -> None:
    texts = PngImagePlugin.PngInfo()
    texts.add_text("Comment", ADDRESS.decode())
    more = {"pnginfo": texts} if kind == "PNG" else {"lossless": True, "xmp": ADDRESS}
    original = encoded(kind, exif=exif(), **more) + (ADDRESS if kind == "PNG" else b"")
    found = stripped(original)
    assert found is not None
    assert (found[1], ADDRESS in original, ADDRESS in found[0]) == (f".{kind.lower()}", True, False)
    after = Image.open(BytesIO(found[0]))
    assert not after.getexif()
    assert np.array_equal(np.asarray(after), np.asarray(photo()))
    assert stripped(encoded("GIF")) is None  # which is left to the caller


def test_a_damaged_file_is_refused() -> None:
    content = encoded("JPEG", exif=exif())
    for end in (30, len(content) // 2, len(content) - 2):
        with pytest.raises((ValueError, IndexError, OSError)):
            stripped(content[:end])
