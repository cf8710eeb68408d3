"""Files of photos: found, kept when sent, and reduced."""

from __future__ import annotations

import hashlib
import os
import struct
from io import BytesIO
from pathlib import Path
from zlib import crc32

import pytest
from PIL import Image

from server.photo_files import (
    Thumbnails,
    check_photo,
    find_photo,
    has_uploads,
    keep_upload,
    upload_path,
)
from server.problems import ProblemError
from sparta.errors import InputError


def test_the_type_is_that_of_the_content(tmp_path: Path) -> None:
    for form, expected in [("BMP", "bmp"), ("TIFF", "tiff"), ("GIF", "gif"), ("PNG", "png")]:
        path = tmp_path / "photo.jpg"
        Image.new("RGB", (4, 4)).save(path, form)
        assert find_photo(tmp_path, None, "photo.jpg", {})[:2] == (path, f"image/{expected}")


@pytest.mark.parametrize(
    "content",
    [
        b"P6\n99999999999999999999 1\n255\n",
        b"P6\n1 x\n255\n",
        b"P5\n4 4\n0\n",
        b"P6",
        b"%!PS-Adobe-3.0 EPSF\n",
        b"<svg xmlns='http://www.w3.org/2000/svg'/>",
        b"[core]\n\turl = https://name:password@example.org/\n",
        b"",
    ],
)
def test_what_is_no_photo_is_not_served(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "photo.ppm"
    path.write_bytes(content)
    with pytest.raises(ProblemError, match="is not a photo"):
        find_photo(tmp_path, None, "photo.ppm", {})


def test_an_image_that_was_sent_has_no_file_in_the_folder(tmp_path: Path) -> None:
    photos, index = tmp_path / "photos", tmp_path / "index"
    photos.mkdir()
    Image.new("RGB", (4, 4)).save(photos / "private.png")
    for name, reason in [("", "without a photo"), (f"ab/{'0' * 64}.png", "its photo is missing")]:
        with pytest.raises(ProblemError, match=reason):
            find_photo(photos, index, "private.png", {"upload": name})
        with pytest.raises(ProblemError, match=reason):
            find_photo(photos, None, "private.png", {"upload": name})


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ProblemError, match="missing from the photos folder"):
        find_photo(tmp_path, None, "pipe", {})


# ---- small pictures ------------------------------------------------------------------------------

TURNED = 6  # EXIF orientation: to be turned by 90 degrees
GPS, ORIENTATION = 0x8825, 0x0112


@pytest.fixture
def turned(tmp_path: Path) -> Path:
    """A turned whose camera lay on its side, and knew where."""
    path = tmp_path / "photo.jpg"
    image = Image.new("RGB", (1200, 800), "navy")
    image.paste("red", (0, 0, 1200, 400))  # the right half once it is upright
    exif = Image.Exif()
    exif[ORIENTATION] = TURNED
    exif.get_ifd(GPS)[2] = (48.0, 8.0, 0.0)
    image.save(path, exif=exif, quality=95)
    return path


def picture_of(path: Path, size: int, thumbnails: Thumbnails | None = None) -> bytes:
    return (thumbnails or Thumbnails()).of(find_photo(path.parent, None, path.name, {}), size)


def opened(picture: bytes) -> Image.Image:
    return Image.open(BytesIO(picture))


@pytest.mark.parametrize("size", [256, 512])
def test_a_picture_is_upright_and_says_nothing_else(turned: Path, size: int) -> None:
    picture = opened(picture_of(turned, size))
    assert (picture.format, picture.size) == ("JPEG", (round(size * 2 / 3), size))
    assert dict(picture.getexif()) == {} and "exif" not in picture.info
    left, right = picture.getpixel((4, 9)), picture.getpixel((picture.width - 5, 9))
    assert isinstance(left, tuple) and isinstance(right, tuple)
    assert left[2] > 100 > left[0] and right[0] > 200 > right[2]
    Image.new("RGBA", (40, 30), (0, 0, 0, 0)).save(turned.parent / "small.png")
    small = opened(picture_of(turned.parent / "small.png", size))
    assert (small.size, small.getpixel((9, 9))) == ((40, 30), (255, 255, 255))


def test_pictures_are_kept_until_the_photo_changes(turned: Path) -> None:
    thumbnails = Thumbnails()
    first = picture_of(turned, 256, thumbnails)
    assert picture_of(turned, 256, thumbnails) is first
    Image.new("RGB", (90, 60)).save(turned)
    assert opened(picture_of(turned, 256, thumbnails)).size == (90, 60)


def test_those_not_used_for_longest_make_room(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.png" for number in range(3)]
    for number, path in enumerate(paths):
        Image.new("RGB", (60, 60), (number, 0, 0)).save(path)
    thumbnails = Thumbnails(2)
    first, second = (picture_of(path, 256, thumbnails) for path in paths[:2])
    assert picture_of(paths[0], 256, thumbnails) is first
    picture_of(paths[2], 256, thumbnails)
    assert picture_of(paths[0], 256, thumbnails) is first
    assert picture_of(paths[1], 256, thumbnails) is not second


def photo(kind: str) -> bytes:
    file = BytesIO()
    Image.new("RGB", (9, 9), "red").save(file, kind)
    return file.getvalue()


def sized(kind: str, width: int, height: int) -> bytes:
    """A photo whose header promises more pixels than follow."""
    if kind == "TIFF":  # in tiles of this size
        file, content = BytesIO(), Image.new("RGB", (9, 9))
        content.save(file, kind, tiffinfo={270: "a"})
        tags = struct.pack("<HHIIHHII", 322, 4, 1, width, 323, 4, 1, height)
        found = file.getvalue()
        start = int.from_bytes(found[4:8], "little")
        count = int.from_bytes(found[start : start + 2], "little")
        entries = found[start + 2 : start + 2 + 12 * count]
        directory = struct.pack("<H", count + 2) + entries + tags + bytes(4)
        return found[:4] + struct.pack("<I", len(found)) + found[8:] + directory
    content_, options = BytesIO(), {"progressive": True} if kind == "progressive" else {}
    form = "JPEG" if kind == "progressive" else kind
    Image.new("RGB", (9, 9), "red").save(content_, form, **options)
    found = content_.getvalue()
    if form == "PNG":
        chunk = found[12:16] + struct.pack(">II", width, height) + found[24:29]
        return found[:12] + chunk + struct.pack(">I", crc32(chunk)) + found[33:]
    frame = found.index(b"\xff\xc2" if options else b"\xff\xc0") + 5
    return found[:frame] + struct.pack(">HH", height, width) + found[frame + 4 :]


@pytest.mark.parametrize(
    ("kind", "width", "height", "says"),
    [
        ("PNG", 16000, 11060, "the photo has 177.0 megapixels; 64 are allowed"),
        ("progressive", 16000, 11060, "the photo has 177.0 megapixels; 64 are allowed"),
        ("TIFF", 12000, 12000, "the photo has 144.0 megapixels; 64 are allowed"),
        ("JPEG", 20000, 20000, "400.0 megapixels; 64 are allowed, and 256 in a JPEG that is not"),
    ],
)
def test_a_photo_has_so_many_pixels(
    tmp_path: Path, kind: str, width: int, height: int, says: str
) -> None:
    """Which its header says; nothing is decoded or kept. Photos of phones have fewer."""
    assert check_photo(sized("progressive", 9000, 7000)) == ("jpg", 63_000_000)
    assert check_photo(sized("JPEG", 20000, 12000)) == ("jpg", 240_000_000)
    with pytest.raises(InputError, match=says):
        keep_upload(tmp_path, sized(kind, width, height))
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.parametrize(("kind", "suffix"), [("JPEG", "jpg"), ("PNG", "png"), ("TIFF", "tif")])
def test_a_photo_is_kept_once(tmp_path: Path, kind: str, suffix: str) -> None:
    content = photo(kind)
    digest = hashlib.sha256(content).hexdigest()
    with pytest.raises(InputError, match="not an image, or of an unknown format"):
        keep_upload(tmp_path, b"<html>")
    assert not has_uploads(tmp_path)
    for _ in range(2):
        assert keep_upload(tmp_path, content) == f"{digest[:2]}/{digest}.{suffix}"
    assert has_uploads(tmp_path)
    [file] = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert file == upload_path(tmp_path, f"{digest[:2]}/{digest}.{suffix}")
    assert file.read_bytes() == content
    assert file.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize(
    "name", [None, 3, "", "../manifest.json", "ab/../../x.jpg", f"ab/{'0' * 64}.jpg/x", "/etc/x"]
)
def test_other_names_lead_nowhere(tmp_path: Path, name: str | int | None) -> None:
    assert upload_path(tmp_path, name) is None
