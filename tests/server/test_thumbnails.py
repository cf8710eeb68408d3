"""Small pictures of photos."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image

from server.thumbnails import Thumbnails

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


def opened(picture: bytes) -> Image.Image:
    return Image.open(BytesIO(picture))


@pytest.mark.parametrize("size", [256, 512])
def test_a_picture_is_upright_and_says_nothing_else(photo: Path, size: int) -> None:
    picture = opened(Thumbnails().of(photo, size))
    assert (picture.format, picture.size) == ("JPEG", (round(size * 2 / 3), size))
    assert dict(picture.getexif()) == {} and "exif" not in picture.info
    left, right = picture.getpixel((4, 9)), picture.getpixel((picture.width - 5, 9))
    assert isinstance(left, tuple) and isinstance(right, tuple)
    assert left[2] > 100 > left[0] and right[0] > 200 > right[2]


def test_a_small_photo_stays_as_it_is(tmp_path: Path) -> None:
    Image.new("RGBA", (40, 30), (0, 0, 0, 0)).save(tmp_path / "small.png")
    picture = opened(Thumbnails().of(tmp_path / "small.png", 256))
    assert (picture.size, picture.getpixel((9, 9))) == ((40, 30), (255, 255, 255))


def test_pictures_are_kept_until_the_photo_changes(photo: Path) -> None:
    thumbnails = Thumbnails()
    first = thumbnails.of(photo, 256)
    assert thumbnails.of(photo, 256) is first
    Image.new("RGB", (90, 60)).save(photo)
    assert opened(thumbnails.of(photo, 256)).size == (90, 60)


def test_those_not_used_for_longest_make_room(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.png" for number in range(3)]
    for number, path in enumerate(paths):
        Image.new("RGB", (60, 60), (number, 0, 0)).save(path)
    size = len(Thumbnails().of(paths[0], 256))
    thumbnails = Thumbnails(2 * size)
    first, second = (thumbnails.of(path, 256) for path in paths[:2])
    assert thumbnails.of(paths[0], 256) is first
    thumbnails.of(paths[2], 256)
    assert thumbnails.of(paths[0], 256) is first
    assert thumbnails.of(paths[1], 256) is not second
    thumbnails._remember((paths[1], "two threads made it"), b"")
    thumbnails._remember((paths[1], "two threads made it"), b"")
