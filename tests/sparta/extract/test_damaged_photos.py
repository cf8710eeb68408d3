"""Photos that viewers show although something in their files is wrong, turned or large."""

import struct
import zlib
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import ExifTags, Image
from PIL.PngImagePlugin import PngInfo

from sparta.extract.image_files import load_photo, small_picture
from sparta.extract.photo_metadata import photo_metadata

NOISE = Image.fromarray(np.random.default_rng(3).integers(0, 256, (80, 96, 3), np.uint8))


def saved(form: str, picture: Image.Image = NOISE, **options: Any) -> bytes:
    content = BytesIO()
    picture.save(content, form, **options)
    return content.getvalue()


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("mode", ["RGB", "L", "I;16", "RGBA"])
def test_a_tiff_is_turned_once(orientation: int, mode: str, tmp_path: Path) -> None:
    picture = NOISE.convert("I").convert("I;16") if mode == "I;16" else NOISE.convert(mode)
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = orientation
    picture.save(tmp_path / "a.png", exif=exif)
    picture.save(tmp_path / "a.tif", exif=exif)
    turned, right = load_photo(tmp_path / "a.tif"), load_photo(tmp_path / "a.png")
    assert (turned.width, turned.height) == (right.width, right.height)
    assert turned.extent == right.extent == (0, 0, right.width, right.height)
    np.testing.assert_array_equal(turned.image, right.image)


@pytest.mark.parametrize("form", ["JPEG", "PNG", "BMP", "TIFF", "PPM"])
@pytest.mark.parametrize("share", [0.98, 0.9, 0.7, 0.3])
def test_what_is_there_of_a_cut_photo_is_read(form: str, share: float, tmp_path: Path) -> None:
    content, path = saved(form), tmp_path / "a"
    path.write_bytes(content[: int(share * len(content))])
    if share < 0.5:
        with pytest.raises(OSError, match="truncated"):
            load_photo(path)
        return
    photo = load_photo(path)
    assert (photo.width, photo.height) == NOISE.size
    assert photo.warning.startswith("read as far as possible: image file is truncated")
    assert small_picture(path, 48).size == (48, 40)
    path.write_bytes(content)
    assert load_photo(path).warning == ""
    rows = slice(-30, None) if form == "BMP" else slice(30)  # of which the last row comes first
    whole = np.asarray(load_photo(path).image)
    np.testing.assert_array_equal(np.asarray(photo.image)[rows], whole[rows])


def chunk(kind: bytes, data: bytes, checksum: int = 0) -> bytes:
    right = zlib.crc32(kind + data) ^ checksum
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", right)


@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP"])
def test_damaged_exif_costs_no_photo(form: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(saved(form, exif=b"Exif\0\0junk"))
    photo = load_photo(tmp_path / "a")
    assert (photo.width, photo.height) == NOISE.size


LARGE = zlib.compress(bytes(3 * 2**20))
TIME = struct.pack(">HBBBBB", 2024, 5, 6, 7, 8, 9)


@pytest.mark.parametrize(
    "extra",
    [
        chunk(b"tEXt", b"Comment\0hello", checksum=1),
        chunk(b"tIME", TIME, checksum=1),
        chunk(b"zTXt", b"Comment\0\0" + LARGE),
        chunk(b"iTXt", b"Comment\0\1\0\0\0" + LARGE),
        chunk(b"iCCP", b"profile\0\0" + LARGE),
    ],
)
@pytest.mark.parametrize("before", [True, False])
def test_extras_of_a_png_cost_no_more_than_themselves(
    extra: bytes, before: bool, tmp_path: Path
) -> None:
    info, exif = PngInfo(), Image.Exif()
    exif[ExifTags.Base.Make] = "Acme"
    content, path = saved("PNG", pnginfo=info, exif=exif), tmp_path / "a.png"
    at = 33 if before else content.index(b"IEND") - 4
    path.write_bytes(content[:at] + extra + content[at:])
    photo = load_photo(path)
    np.testing.assert_array_equal(photo.image, NOISE)
    assert photo.warning or not before  # what comes after the pixels is not checked
    assert photo_metadata(path)["make"] == "Acme"


def test_what_is_no_photo_stays_none(tmp_path: Path) -> None:
    for content in (b"\x89PNG\r\n\x1a\n" + bytes(100), b"\xff\xd8\xff\xe0" + bytes(100), b"GIF89a"):
        (tmp_path / "a").write_bytes(content)
        with pytest.raises((OSError, SyntaxError, ValueError)):
            load_photo(tmp_path / "a")
    with pytest.raises(FileNotFoundError):
        load_photo(tmp_path / "b")
