"""Photos for the eyes of a model."""

from io import BytesIO

import pytest
from PIL import Image, UnidentifiedImageError

from server.mcp.tools import SIDE, scaled_down


def file(image: Image.Image, kind: str, **options: object) -> bytes:
    out = BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def shown(content: bytes) -> Image.Image:
    picture = Image.open(BytesIO(scaled_down(content)))
    assert picture.format == "JPEG"
    return picture


@pytest.mark.parametrize(
    ("size", "expected"),
    [((3000, 1500), (SIDE, SIDE // 2)), ((901, 3001), (307, SIDE)), ((40, 30), (40, 30))],
)
@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_large_photos_are_scaled_down(
    kind: str, size: tuple[int, int], expected: tuple[int, int]
) -> None:
    picture = shown(file(Image.new("RGB", size, "teal"), kind))
    assert picture.size == expected
    red, green, blue = picture.getpixel((0, 0))  # type: ignore[misc]
    assert red < 10 and abs(green - 128) < 10 and abs(blue - 128) < 10


def test_photos_are_upright_and_of_one_colour_model() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # a quarter turn
    assert shown(file(Image.new("RGB", (60, 30)), "JPEG", exif=exif)).size == (30, 60)
    transparent = shown(file(Image.new("RGBA", (20, 20), (0, 0, 0, 0)), "PNG"))
    assert transparent.mode == "RGB" and transparent.getpixel((5, 5)) == (255, 255, 255)


def test_other_files_raise() -> None:
    with pytest.raises(UnidentifiedImageError):
        scaled_down(b"no photo")
