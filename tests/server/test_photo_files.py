"""Files of photos, and small pictures of them."""

from __future__ import annotations

import os
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image

from server.photo_files import Thumbnails, find_photo
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


# ---- small pictures ------------------------------------------------------------------------------

TURNED = 6  # EXIF orientation: to be turned by 90 degrees
GPS, ORIENTATION = 0x8825, 0x0112


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    """A photo whose camera lay on its side, and knew where."""
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
def test_a_picture_is_upright_and_says_nothing_else(photo: Path, size: int) -> None:
    picture = opened(picture_of(photo, size))
    assert (picture.format, picture.size) == ("JPEG", (round(size * 2 / 3), size))
    assert dict(picture.getexif()) == {} and "exif" not in picture.info
    left, right = picture.getpixel((4, 9)), picture.getpixel((picture.width - 5, 9))
    assert isinstance(left, tuple) and isinstance(right, tuple)
    assert left[2] > 100 > left[0] and right[0] > 200 > right[2]


def test_a_small_photo_stays_as_it_is(tmp_path: Path) -> None:
    Image.new("RGBA", (40, 30), (0, 0, 0, 0)).save(tmp_path / "small.png")
    picture = opened(picture_of(tmp_path / "small.png", 256))
    assert (picture.size, picture.getpixel((9, 9))) == ((40, 30), (255, 255, 255))


def test_pictures_are_kept_until_the_photo_changes(photo: Path) -> None:
    thumbnails = Thumbnails()
    first = picture_of(photo, 256, thumbnails)
    assert picture_of(photo, 256, thumbnails) is first
    Image.new("RGB", (90, 60)).save(photo)
    assert opened(picture_of(photo, 256, thumbnails)).size == (90, 60)


def test_those_not_used_for_longest_make_room(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.png" for number in range(3)]
    for number, path in enumerate(paths):
        Image.new("RGB", (60, 60), (number, 0, 0)).save(path)
    size = len(picture_of(paths[0], 256))
    thumbnails = Thumbnails(2 * size)
    first, second = (picture_of(path, 256, thumbnails) for path in paths[:2])
    assert picture_of(paths[0], 256, thumbnails) is first
    picture_of(paths[2], 256, thumbnails)
    assert picture_of(paths[0], 256, thumbnails) is first
    assert picture_of(paths[1], 256, thumbnails) is not second
