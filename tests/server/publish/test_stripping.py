"""Photo files without what they say about themselves."""

from io import BytesIO

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


def test_png() -> None:
    texts = PngImagePlugin.PngInfo()
    texts.add_text("Comment", SECRET.decode())
    original = encoded("PNG", pnginfo=texts, exif=exif())
    found = stripped(original + SECRET)
    assert found is not None
    assert (found[1], SECRET in original, SECRET in found[0]) == (".png", True, False)
    assert np.array_equal(np.asarray(Image.open(BytesIO(found[0]))), np.asarray(photo()))


def test_webp() -> None:
    original = encoded("WEBP", lossless=True, exif=exif(), xmp=SECRET)
    found = stripped(original)
    assert found is not None
    assert (found[1], SECRET in original, SECRET in found[0]) == (".webp", True, False)
    after = Image.open(BytesIO(found[0]))
    assert not after.getexif()
    assert np.array_equal(np.asarray(after), np.asarray(photo()))


def test_other_formats_are_left_to_the_caller() -> None:
    assert stripped(encoded("GIF")) is None


def test_a_damaged_file_is_refused() -> None:
    content = encoded("JPEG", exif=exif())
    for end in (30, len(content) // 2, len(content) - 2):
        with pytest.raises((ValueError, IndexError, OSError)):
            stripped(content[:end])
