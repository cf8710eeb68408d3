"""Folders by address, addresses of servers, image ids, and files of settings."""

import pickle
import sys
from pathlib import Path
from typing import Any

import pytest

from sparta.addresses import (
    LONGEST_ID,
    UnreachableError,
    check_id,
    download,
    folder_at,
    id_problem,
    is_remote,
    server_address,
)
from sparta.errors import InputError
from tests.s3_server import upload


def test_a_path_is_a_path() -> None:
    assert folder_at("photos/2024") == Path("photos/2024")
    assert folder_at("file:///mnt/photos") == Path("/mnt/photos")


def test_a_bucket_is_read(bucket: None, tmp_path: Path) -> None:
    (tmp_path / "a" / "b#1 c").mkdir(parents=True)
    (tmp_path / "a" / "b#1 c" / "d.txt").write_text("content")
    address = upload(tmp_path / "a", "addresses")
    folder = pickle.loads(pickle.dumps(folder_at(address)))
    assert is_remote(folder) and str(folder) == address
    assert folder.is_dir() and not (folder / "absent").exists()
    assert download(folder / "b#1 c" / "d.txt") == b"content"
    with pytest.raises(FileNotFoundError):
        download(folder / "absent")


@pytest.mark.parametrize(
    ("address", "absent", "reason"),
    [
        ("nowhere://photos", "gcsfs", "cannot be read: .*Unsupported filesystem: 'nowhere'"),
        ("gs://photos", "gcsfs", "cannot be read: .*install gcsfs"),
        ("s3://bucket/photos", "upath", r"pip install '.*\[ray\]'"),
    ],
)
def test_what_cannot_be_reached_is_named(
    address: str, absent: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, absent, None)
    with pytest.raises(InputError, match=reason):
        folder_at(address)


def test_a_machine_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = folder_at("memory://photos")

    def fail(*_: Any, **__: Any) -> None:
        raise ConnectionResetError("reset by peer")

    monkeypatch.setattr(type(folder), "read_bytes", fail)
    with pytest.raises(UnreachableError, match=r"^memory://photos/a.jpg cannot be read: reset by"):
        download(folder / "a.jpg")


EXAMPLE = "http://localhost:1"


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("http://a.example", "http://a.example"),
        ("https://a.example:8/photos//", "https://a.example:8/photos"),
        ("http://[::1]:8000/", "http://[::1]:8000"),
        *[(text, None) for text in ("", "a.example", "ftp://a.example", "http://", "http://a?b")],
    ],
)
def test_addresses_of_servers(text: str, address: str | None) -> None:
    if address is not None:
        assert server_address(text, EXAMPLE) == address
        return
    with pytest.raises(InputError, match=r"is not the address of a server; give one like http://l"):
        server_address(text, EXAMPLE)


# ---- image ids -----------------------------------------------------------------------------------

DOTS = ["..", ".", "a/../b.jpg", "a/./b.jpg", "../b.jpg", "a/..", "/b.jpg", "a//b.jpg", "a/", "/"]


@pytest.mark.parametrize("image_id", [*DOTS, "", "a\0b", "\ud800", "é" * LONGEST_ID])
def test_what_would_reach_another_image_is_refused(image_id: str) -> None:
    assert id_problem(image_id)
    with pytest.raises(InputError, match="the image id"):
        check_id(image_id)


@pytest.mark.parametrize(
    "image_id",
    ["...", ".hidden/a..b.jpg", "..a", "a\\..\\b", "%2e%2e/a", "a b\n?#.jpg", "C:x", "é/日本.jpg"],
)
def test_all_else_means_itself(image_id: str) -> None:
    assert id_problem(image_id) is None
