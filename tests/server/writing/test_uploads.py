"""Photos that are sent are kept by their content."""

from __future__ import annotations

import hashlib
import struct
from io import BytesIO
from pathlib import Path
from zlib import crc32

import pytest
from PIL import Image

from server.photo_files import check_photo, has_uploads, keep_upload, upload_path
from sparta.errors import InputError


def photo(kind: str) -> bytes:
    file = BytesIO()
    Image.new("RGB", (9, 9), "red").save(file, kind)
    return file.getvalue()


def sized(kind: str, width: int, height: int) -> bytes:
    """A photo whose header promises more pixels than follow."""
    if kind == "TIFF":  # in tiles of this size
        file, content = BytesIO(), Image.new("RGB", (9, 9))
        content.save(file, kind, tiffinfo={270: "a"})
        tags = struct.pack("<HHIIHHII", 322, 4, 1, width, 323, 4, 1, height)
        found = file.getvalue()
        start = int.from_bytes(found[4:8], "little")
        count = int.from_bytes(found[start : start + 2], "little")
        entries = found[start + 2 : start + 2 + 12 * count]
        directory = struct.pack("<H", count + 2) + entries + tags + bytes(4)
        return found[:4] + struct.pack("<I", len(found)) + found[8:] + directory
    content_, options = BytesIO(), {"progressive": True} if kind == "progressive" else {}
    form = "JPEG" if kind == "progressive" else kind
    Image.new("RGB", (9, 9), "red").save(content_, form, **options)
    found = content_.getvalue()
    if form == "PNG":
        chunk = found[12:16] + struct.pack(">II", width, height) + found[24:29]
        return found[:12] + chunk + struct.pack(">I", crc32(chunk)) + found[33:]
    frame = found.index(b"\xff\xc2" if options else b"\xff\xc0") + 5
    return found[:frame] + struct.pack(">HH", height, width) + found[frame + 4 :]


@pytest.mark.parametrize(
    ("kind", "width", "height", "says"),
    [
        ("PNG", 16000, 11060, "the photo has 177.0 megapixels; 64 are allowed"),
        ("PNG", 60000, 60000, "the photo is too large; 64 are allowed"),
        ("progressive", 16000, 11060, "the photo has 177.0 megapixels; 64 are allowed"),
        ("TIFF", 12000, 12000, "the photo has 144.0 megapixels; 64 are allowed"),
        ("JPEG", 20000, 20000, "400.0 megapixels; 64 are allowed, and 256 in a JPEG that is not"),
        ("JPEG", 65500, 65500, "megapixels; 64 are allowed, and 256 in a JPEG that is not"),
    ],
)
def test_a_photo_has_so_many_pixels(
    tmp_path: Path, kind: str, width: int, height: int, says: str
) -> None:
    """Which its header says; nothing is decoded or kept."""
    with pytest.raises(InputError, match=says):
        keep_upload(tmp_path, sized(kind, width, height))
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    ("kind", "width", "height", "suffix"),
    [("PNG", 9000, 7000, "png"), ("progressive", 9000, 7000, "jpg"), ("JPEG", 20000, 12000, "jpg")],
)
def test_photos_of_phones_may_be_sent(kind: str, width: int, height: int, suffix: str) -> None:
    assert check_photo(sized(kind, width, height)) == (suffix, width * height)


@pytest.mark.parametrize(("kind", "suffix"), [("JPEG", "jpg"), ("PNG", "png"), ("TIFF", "tif")])
def test_a_photo_is_kept_once(tmp_path: Path, kind: str, suffix: str) -> None:
    content = photo(kind)
    digest = hashlib.sha256(content).hexdigest()
    with pytest.raises(InputError, match="not an image, or of an unknown format"):
        keep_upload(tmp_path, b"<html>")
    assert not has_uploads(tmp_path)
    for _ in range(2):
        assert keep_upload(tmp_path, content) == f"{digest[:2]}/{digest}.{suffix}"
    assert has_uploads(tmp_path)
    [file] = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert file == upload_path(tmp_path, f"{digest[:2]}/{digest}.{suffix}")
    assert file.read_bytes() == content
    assert file.stat().st_mode & 0o777 == 0o644


def test_what_is_no_photo_is_not_kept(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not an image, or of an unknown format"):
        keep_upload(tmp_path, b"<html>")
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    "name", [None, 3, "", "../manifest.json", "ab/../../x.jpg", f"ab/{'0' * 64}.jpg/x", "/etc/x"]
)
def test_other_names_lead_nowhere(tmp_path: Path, name: object) -> None:
    assert upload_path(tmp_path, name) is None
