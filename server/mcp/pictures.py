"""Photos for the eyes of a model: upright, of a size that fits its input, as JPEG."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image

from sparta.features.extract.image_files import load_photo

SIDE = 1024  # pixels; models reduce larger pictures themselves
QUALITY = 85


def scaled_down(content: bytes) -> bytes:
    """A JPEG of a photo whose longer side has at most `SIDE` pixels.

    Args:
        content: of a file in any of the formats that are indexed.

    Raises:
        Exception: whatever Pillow raises on files that are damaged or no photos.
    """
    with TemporaryDirectory() as folder:
        path = Path(folder) / "photo"
        path.write_bytes(content)
        photo = load_photo(path, SIDE // 2)
    left, top, right, bottom = photo.extent
    image = photo.image.crop((round(left), round(top), round(right), round(bottom)))
    image.thumbnail((SIDE, SIDE), Image.Resampling.LANCZOS)
    out = BytesIO()
    image.save(out, "JPEG", quality=QUALITY)
    return out.getvalue()
