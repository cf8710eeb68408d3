import os
from pathlib import Path

import pytest
from PIL import Image

from server.photo_files import media_type
from sparta.features.extract.image_files import PhotoError


def test_the_type_is_that_of_the_content(tmp_path: Path) -> None:
    for form, expected in [("BMP", "bmp"), ("TIFF", "tiff"), ("GIF", "gif"), ("PNG", "png")]:
        path = tmp_path / "photo.jpg"
        Image.new("RGB", (4, 4)).save(path, form)
        assert media_type(path) == f"image/{expected}"


@pytest.mark.parametrize(
    "content",
    [
        b"P6\n99999999999999999999 1\n255\n",
        b"P6\n1 x\n255\n",
        b"P5\n4 4\n0\n",
        b"P6",
        b"%!PS-Adobe-3.0 EPSF\n",
    ],
)
def test_a_damaged_or_undocumented_photo_is_plain_bytes(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "photo.ppm"
    path.write_bytes(content)
    assert media_type(path) == "application/octet-stream"


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(PhotoError, match="not a regular file"):
        media_type(tmp_path / "pipe")
