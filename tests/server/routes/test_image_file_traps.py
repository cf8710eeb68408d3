"""Ids and links that try to lead out of the photos folder, sent to a real server."""

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from server.backends import Backend
from tests.server.fake import Drawing, FakeSearcher
from tests.server.live import raw_get, serving

SECRET = b"only the owner reads this"


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A photos folder with traps in it, and a secret beside it."""
    tmp_path = tmp_path_factory.mktemp("house")
    folder = tmp_path / "photos"
    folder.mkdir()
    (tmp_path / "secret.txt").write_bytes(SECRET)
    (folder / "unindexed.txt").write_bytes(SECRET)
    Image.new("RGB", (8, 8), "red").save(folder / "real.png")
    (folder / "out.png").symlink_to(tmp_path / "secret.txt")
    (folder / "up").symlink_to(tmp_path)
    (folder / "in.png").symlink_to(folder / "real.png")
    (folder / "loop.png").symlink_to(folder / "loop.png")
    (folder / "dangling.png").symlink_to(tmp_path / "nowhere")
    (folder / "folder.png").mkdir()
    (folder / "page.png").write_text("<script>alert(1)</script>")
    return folder


@pytest.fixture(scope="module")
def trapped(house: Path) -> Iterator[str]:
    """A server whose index itself names every trap."""
    drawing = Drawing((8, 8), "red", {"red": (1, (0.0, 0.0, 1.0, 1.0))})
    ids = [path.name for path in house.iterdir()] + [
        "gone.png",
        "x" * 300 + ".png",
        "../secret.txt",
        "up/secret.txt",
        str(house.parent / "secret.txt"),
    ]
    ids.remove("unindexed.txt")
    searcher = FakeSearcher(dict.fromkeys(ids, drawing))
    with serving(Backend("sparta", searcher, house)) as address:
        yield address


def encoded(image_id: str) -> str:
    """A URL in which every byte is escaped, so that no client tidies its dots and slashes away."""
    escaped = "".join(f"%{byte:02X}" for byte in image_id.encode(errors="replace"))
    return f"/v1/images/{escaped}/file"


@pytest.mark.parametrize(
    ("image_id", "status", "kind"),
    [
        ("gone.png", 404, "photo-missing"),
        ("dangling.png", 404, "photo-missing"),
        ("loop.png", 404, "photo-missing"),
        ("folder.png", 404, "photo-missing"),
        ("x" * 300 + ".png", 404, "photo-missing"),
        ("out.png", 403, "photo-forbidden"),
        ("up", 403, "photo-forbidden"),
        ("up/secret.txt", 403, "photo-forbidden"),
        ("../secret.txt", 403, "photo-forbidden"),
        ("unindexed.txt", 404, "unknown-image"),
        ("./real.png", 404, "unknown-image"),
        ("real.png\0", 404, "unknown-image"),
        ("real.png\0/../../secret.txt", 404, "unknown-image"),
        ("..%2Fsecret.txt", 404, "unknown-image"),
        ("/etc/passwd", 404, "unknown-image"),
    ],
)
def test_traps_are_refused(trapped: str, image_id: str, status: int, kind: str) -> None:
    found, headers, body = raw_get(trapped, encoded(image_id))
    assert found == status
    assert headers["content-type"] == "application/problem+json"
    assert json.loads(body)["type"].endswith(kind)
    assert json.loads(body)["field"] == "image_id"


def test_an_absolute_id_is_refused_even_if_indexed(trapped: str, house: Path) -> None:
    assert raw_get(trapped, encoded(str(house.parent / "secret.txt")))[0] == 403


def test_links_inside_of_the_folder_are_followed(trapped: str, house: Path) -> None:
    assert raw_get(trapped, encoded("in.png"))[2] == (house / "real.png").read_bytes()


def test_a_page_named_as_a_photo_is_not_served(trapped: str) -> None:
    status, _, body = raw_get(trapped, encoded("page.png"))
    assert status == 404 and json.loads(body)["detail"].endswith("'page.png' is not a photo")


PARTS = st.sampled_from(
    ["..", ".", "", "up", "real.png", "secret.txt", "out.png", "\0", "%2e%2e", "%2F", "\\", "etc"]
)
IDS = st.one_of(st.lists(PARTS, max_size=8).map("/".join), st.text(max_size=30))


@settings(max_examples=300)
@given(image_id=IDS, plain=st.booleans())
def test_no_id_leads_out(trapped: str, image_id: str, plain: bool) -> None:
    escaped = f"/v1/images/{quote(image_id, errors='replace')}/file" if plain else None
    status, headers, body = raw_get(trapped, escaped or encoded(image_id))
    assert status in (200, 403, 404)
    assert SECRET not in body
    if status == 200:
        assert image_id in ("real.png", "in.png", "page.png")
    else:
        assert headers["content-type"] == "application/problem+json"
