"""Photos that are sent are kept by their content."""

from __future__ import annotations

import hashlib
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image

from server.writing.uploads import has_uploads, keep_upload, upload_path
from sparta.errors import InputError


def photo(kind: str) -> bytes:
    file = BytesIO()
    Image.new("RGB", (9, 9), "red").save(file, kind)
    return file.getvalue()


@pytest.mark.parametrize(("kind", "suffix"), [("JPEG", "jpg"), ("PNG", "png"), ("TIFF", "tif")])
def test_a_photo_is_kept_once(tmp_path: Path, kind: str, suffix: str) -> None:
    content = photo(kind)
    digest = hashlib.sha256(content).hexdigest()
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
    "name",
    [None, 3, "", "../manifest.json", "ab/../../x.jpg", f"ab/{'0' * 64}.jpg/x", "/etc/x"],
)
def test_other_names_lead_nowhere(tmp_path: Path, name: object) -> None:
    assert upload_path(tmp_path, name) is None
