"""Photo files without what they say about themselves."""

from io import BytesIO
from typing import Any

import numpy as np
import pytest
from PIL import ExifTags, Image, ImageOps, PngImagePlugin

from server.publish.photos import stripped

SECRET = b"47 Private Road"


def photo() -> Image.Image:
    return Image.fromarray(np.random.default_rng(0).integers(0, 255, (40, 60, 3), np.uint8))


def exif(orientation: int = 1) -> Image.Exif:
    made = Image.Exif()
    made[ExifTags.Base.ImageDescription] = SECRET.decode()
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
    options = {"exif": exif(orientation), "comment": SECRET, "xmp": b"<x>" + SECRET}
    original = encoded("JPEG", progressive=progressive, icc_profile=b"colours", **options)
    found = stripped(original + b"hidden video" + SECRET)
    assert found is not None
    content, suffix = found
    assert (suffix, SECRET in original, SECRET in content) == (".jpg", True, False)
    assert b"hidden video" not in content
    before, after = Image.open(BytesIO(original)), Image.open(BytesIO(content))
    assert after.info["icc_profile"] == b"colours"
    assert dict(after.getexif()) == ({ExifTags.Base.Orientation: 6} if orientation == 6 else {})
    right, found_pixels = (np.asarray(ImageOps.exif_transpose(one)) for one in (before, after))
    assert np.array_equal(found_pixels, right)


def texts() -> PngImagePlugin.PngInfo:
    made = PngImagePlugin.PngInfo()
    made.add_text("Comment", SECRET.decode())
    return made


@pytest.mark.parametrize(
    ("kind", "options", "appended"),
    [
        ("PNG", {"pnginfo": texts(), "exif": exif()}, SECRET),
        ("WEBP", {"lossless": True, "exif": exif(), "xmp": SECRET}, b""),
    ],
)
def test_without_loss(kind: str, options: dict[str, Any], appended: bytes) -> None:
    original = encoded(kind, **options)
    found = stripped(original + appended)
    assert found is not None
    content, suffix = found
    assert (suffix, SECRET in original, SECRET in content) == (f".{kind.lower()}", True, False)
    after = Image.open(BytesIO(content))
    assert not after.getexif()
    assert np.array_equal(np.asarray(after), np.asarray(photo()))


def test_other_formats_are_left_to_the_caller() -> None:
    assert stripped(encoded("GIF")) is None


def test_a_damaged_file_is_refused() -> None:
    content = encoded("JPEG", exif=exif())
    for end in (30, len(content) // 2, len(content) - 2):
        with pytest.raises((ValueError, IndexError, OSError)):
            stripped(content[:end])
