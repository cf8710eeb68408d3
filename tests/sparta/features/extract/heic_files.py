"""HEIC files for tests."""

from pathlib import Path

import pytest
from PIL import Image


def write_heic(path: Path, picture: Image.Image, **options: object) -> None:
    """Write a picture as HEIC; skips the test without pillow-heif."""
    pillow_heif = pytest.importorskip("pillow_heif", reason="extra [heic] is not installed")
    pillow_heif.from_pillow(picture).save(path, format="HEIF", quality=95, **options)
