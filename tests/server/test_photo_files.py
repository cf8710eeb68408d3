from pathlib import Path

from PIL import Image

from server.photo_files import media_type


def test_the_type_is_that_of_the_content(tmp_path: Path) -> None:
    for form, expected in [("BMP", "bmp"), ("TIFF", "tiff"), ("GIF", "gif"), ("PNG", "png")]:
        path = tmp_path / "photo.jpg"
        Image.new("RGB", (4, 4)).save(path, form)
        assert media_type(path) == f"image/{expected}"
