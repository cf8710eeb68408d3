import os
from pathlib import Path

import pytest
from PIL import Image

from server.photo_files import find_photo
from server.problems import ProblemError


def test_the_type_is_that_of_the_content(tmp_path: Path) -> None:
    for form, expected in [("BMP", "bmp"), ("TIFF", "tiff"), ("GIF", "gif"), ("PNG", "png")]:
        path = tmp_path / "photo.jpg"
        Image.new("RGB", (4, 4)).save(path, form)
        assert find_photo(tmp_path, None, "photo.jpg", {}) == (path, f"image/{expected}")


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
