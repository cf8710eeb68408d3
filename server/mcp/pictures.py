"""Photos for the eyes of a model: upright, of a size that fits its input, as JPEG."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

from sparta.features.extract.image_files import small_picture

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
        image = small_picture(path, SIDE)
    out = BytesIO()
    image.save(out, "JPEG", quality=QUALITY)
    return out.getvalue()
