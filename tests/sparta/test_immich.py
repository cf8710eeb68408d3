"""A stub of immich becomes a folder of photos with their metadata, and stays equal to it.

The stub answers the three requests that an import makes. No immich has run here. Paths, names and
types of fields are those of the OpenAPI document of version 3.2.2; the rest is made up.
"""

import base64
import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import uvicorn
from fastapi import FastAPI, Header, Response
from fastapi.responses import JSONResponse
from PIL import Image
from typer.testing import CliRunner

from indexer.metadata import read_metadata
from server.security.listening import listen
from server.settings import url
from sparta.command_line import cli
from sparta.errors import InputError
from sparta.immich import Downloaded, Library, download

KEY = "stub-key"
SEARCHED = {"type", "order", "page", "size", "withExif", "withPeople"}


def asset_id(number: int) -> str:
    return f"{number:08x}-0000-4000-8000-000000000000"


def picture(colour: str, kind: str = "JPEG") -> bytes:
    out = BytesIO()
    Image.new("RGB", (96, 64), colour).save(out, kind)
    return out.getvalue()


@dataclass
class StubAsset:
    """One photo: what immich stores of it, and its files."""

    name: str
    original: bytes
    preview: bytes | None
    original_type: str = "image/jpeg"
    preview_type: str = "image/jpeg"
    fields: dict[str, Any] = field(default_factory=dict)
    exif: dict[str, Any] = field(default_factory=dict)

    def answer(self, id: str) -> dict[str, Any]:
        """The asset, of what is always there with the fields that are read, and some others."""
        fields = {
            "id": id,
            "type": "IMAGE",
            "originalFileName": self.name,
            "originalMimeType": self.original_type,
            "checksum": base64.b64encode(hashlib.sha1(self.original).digest()).decode(),
            "thumbhash": base64.b64encode(hashlib.sha1(self.preview or b"").digest()[:9]).decode(),
            "localDateTime": "2024-05-01T10:00:00.000Z",
            "isFavorite": False,
            "people": [],
        }
        return fields | self.fields | {"exifInfo": self.exif}


@dataclass
class StubImmich:
    """The server's state, and what was asked of it."""

    assets: dict[str, StubAsset]
    page: int = 2  # assets a page at most, as if that were immich's limit
    pictures: list[str] = field(default_factory=list)  # paths that were asked for
    broken: set[str] = field(default_factory=set)  # paths that are answered with status 500

    def app(self) -> FastAPI:
        app = FastAPI()

        @app.post("/api/search/metadata")
        def search(wanted: dict[str, Any], x_api_key: str = Header("")) -> Response:
            if x_api_key != KEY:
                return refusal()
            assert wanted.keys() == SEARCHED and wanted["type"] == "IMAGE"
            assert 1 <= wanted["size"] <= 1000 and wanted["order"] == "asc"
            size, page = min(wanted["size"], self.page), wanted["page"]
            ids = list(self.assets)[(page - 1) * size : page * size]
            more = page * size < len(self.assets)
            items = [self.assets[id].answer(id) for id in ids]
            found = {"items": items, "nextPage": str(page + 1) if more else None}
            return JSONResponse({"assets": found})

        @app.get("/api/assets/{id}/{part}")
        def file(id: str, part: str, size: str = "", x_api_key: str = Header("")) -> Response:
            if x_api_key != KEY:
                return refusal()
            self.pictures.append(f"{id}/{part}")
            if f"{id}/{part}" in self.broken:
                return Response("upstream", status_code=500)
            asset = self.assets[id]
            if part == "original":
                return Response(asset.original, media_type=asset.original_type)
            assert (part, size) == ("thumbnail", "preview")
            if asset.preview is None:
                body = {"message": "Asset media not found", "error": "Not Found", "statusCode": 404}
                return JSONResponse(body, 404)
            return Response(asset.preview, media_type=asset.preview_type)

        return app


def refusal() -> Response:
    body = {"message": "Invalid API key", "error": "Unauthorized", "statusCode": 401}
    return JSONResponse(body, 401)


@contextmanager
def running(app: FastAPI) -> Iterator[str]:
    """Run an application in a thread; yields its address."""
    with listen("127.0.0.1", 0) as socket:
        server = uvicorn.Server(uvicorn.Config(app, ws="none", log_level="error"))
        thread = Thread(target=server.run, kwargs={"sockets": [socket]})
        thread.start()
        try:
            yield url("127.0.0.1", socket.getsockname()[1])
        finally:
            server.should_exit = True
            thread.join()


ONE, TWO, THREE, RAW, BARE = map(asset_id, range(1, 6))


@pytest.fixture
def immich() -> StubImmich:
    beach = {
        "localDateTime": "2023-07-02T18:30:00.000Z",
        "isFavorite": True,
        "people": [{"name": "Ada"}, {"name": ""}],  # the latter nobody has named
        "tags": [{"name": "holiday"}],
    }
    place = {"city": "Lisbon", "country": "Portugal", "latitude": 38.7, "description": "", "iso": 9}
    return StubImmich(
        {
            ONE: StubAsset("IMG 1.heic", b"heic", picture("teal"), "image/heic", "image/jpeg"),
            TWO: StubAsset("two.jpg", picture("red"), picture("red"), fields=beach, exif=place),
            THREE: StubAsset(
                "3.png", picture("navy", "PNG"), picture("navy", "WEBP"), "image/png", "image/webp"
            ),
            RAW: StubAsset("4.dng", b"raw", picture("gold"), "image/x-adobe-dng"),
            BARE: StubAsset("5.jpg", picture("gray"), None),
        }
    )


@pytest.fixture
def address(immich: StubImmich) -> Iterator[str]:
    with running(immich.app()) as address:
        yield address


def run(address: str, out: Path, **options: Any) -> Downloaded:
    with Library(address, KEY) as library:
        return download(library, out, **options)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def names(out: Path) -> set[str]:
    return {path.name for path in (out / "photos").iterdir()}


def test_previews_and_metadata(address: str, immich: StubImmich, tmp_path: Path) -> None:
    steps: list[tuple[str, int, int]] = []
    done = run(address + "/", tmp_path, progress=lambda *step: steps.append(step))
    assert (done.photos, done.new, done.removed) == (4, 4, 0)
    assert names(tmp_path) == {f"{ONE}.jpg", f"{TWO}.jpg", f"{THREE}.webp", f"{RAW}.jpg"}
    assert (tmp_path / "photos" / f"{TWO}.jpg").read_bytes() == immich.assets[TWO].preview
    assert steps == [("download", n, total) for n, total in enumerate([2, 2, 4, 4, 5], start=1)]
    first, second, *_ = lines(tmp_path / "metadata.jsonl")
    assert second.pop("version")
    known: dict[str, Any] = {"image": f"{TWO}.jpg", "immich_id": TWO, "name": "two.jpg"}
    known |= {"page": f"{address}/photos/{TWO}", "taken": "2023-07-02T18:30:00.000Z"}
    known |= {"city": "Lisbon", "country": "Portugal", "latitude": 38.7, "iso": 9}
    assert second == known | {"favourite": True, "people": ["Ada"], "tags": ["holiday"]}
    assert first.keys() == {"image", "immich_id", "page", "name", "taken", "version"}
    reason = "immich has no picture of it"
    assert lines(tmp_path / "skipped.jsonl") == [{"id": BARE, "reason": reason}]


def test_originals(address: str, immich: StubImmich, tmp_path: Path) -> None:
    assert run(address, tmp_path).new == 4
    done = run(address, tmp_path, original=True)
    assert names(tmp_path) == {f"{ONE}.heic", f"{TWO}.jpg", f"{THREE}.png", f"{BARE}.jpg"}
    assert (done.photos, done.new, done.removed) == (4, 4, 3)
    reason = "image/x-adobe-dng is not indexed; previews are, in any case"
    assert lines(tmp_path / "skipped.jsonl") == [{"id": RAW, "reason": reason}]


def test_only_changes_are_downloaded(address: str, immich: StubImmich, tmp_path: Path) -> None:
    run(address, tmp_path)
    (tmp_path / "photos" / "own.jpg").write_bytes(b"not immich's")
    immich.pictures.clear()
    assert run(address, tmp_path).new == 0
    assert immich.pictures == [f"{BARE}/thumbnail"]
    immich.assets[TWO].preview = picture("lime")  # edited
    immich.assets[THREE].fields["isFavorite"] = True
    del immich.assets[ONE]
    done = run(address, tmp_path)
    assert (done.photos, done.new, done.removed) == (3, 1, 1)
    assert (tmp_path / "photos" / f"{TWO}.jpg").read_bytes() == picture("lime")
    assert names(tmp_path) == {f"{TWO}.jpg", f"{THREE}.webp", f"{RAW}.jpg", "own.jpg"}
    assert lines(tmp_path / "metadata.jsonl")[1]["favourite"] is True


def test_an_interrupted_run_continues(address: str, immich: StubImmich, tmp_path: Path) -> None:
    immich.broken.add(f"{THREE}/thumbnail")
    with pytest.raises(InputError, match=r"answered 500 to /api/assets/.*run the command again"):
        run(address, tmp_path)
    assert names(tmp_path) == {f"{ONE}.jpg", f"{TWO}.jpg"}
    assert not (tmp_path / "metadata.jsonl").exists()
    immich.broken.clear()
    done = run(address, tmp_path)
    assert (done.photos, done.new) == (4, 2)
    assert len(lines(tmp_path / "metadata.jsonl")) == 4


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 1 is damaged: delete the file"),
        ('{"image": "a.jpg"}', "line 1 is damaged"),
        ('{"image": "../a.jpg", "version": "x"}', r"'\.\./a\.jpg' is not the name of a picture"),
    ],
)
def test_damaged_metadata(address: str, tmp_path: Path, line: str, message: str) -> None:
    (tmp_path / "metadata.jsonl").write_text(line + "\n")
    with pytest.raises(InputError, match=message):
        run(address, tmp_path)


def test_a_folder_in_place_of_a_picture(address: str, immich: StubImmich, tmp_path: Path) -> None:
    first = run(address, tmp_path)
    name = min(names(tmp_path))
    (tmp_path / "photos" / name).unlink()
    (tmp_path / "photos" / name / "mine").mkdir(parents=True)
    for _ in range(2):
        done = run(address, tmp_path)
        assert (done.photos, done.removed) == (first.photos - 1, 0)
        assert any("a folder has the name" in one.reason for one in done.skipped)
    assert (tmp_path / "photos" / name / "mine").is_dir()


def failure(address: str, key: str = KEY) -> str:
    with pytest.raises(InputError) as error, Library(address, key) as library:
        list(library.assets())
    return str(error.value)


def test_a_wrong_key_and_no_server() -> None:
    with running(StubImmich({}).app()) as address:
        assert failure(address, "other") == (
            f"{address} refuses the API key (status 401): it must allow asset.read, asset.view and "
            "asset.download"
        )
        with Library(f"{address}/api", KEY) as library:
            assert list(library.assets()) == []
    assert failure("http://127.0.0.1:1").startswith("http://127.0.0.1:1 does not answer: ")
    problem = "is not the address of a server; give one like http://localhost:2283"
    assert problem in failure("localhost:2283")


@pytest.mark.parametrize(
    "body",
    [
        "<p>Hello",
        '{"assets": {"items": [{}], "nextPage": null}}',
        '{"assets": {"items": [{"id": "../../etc/passwd"}], "nextPage": null}}',
    ],
)
def test_another_server(body: str) -> None:
    app = FastAPI()

    @app.post("/api/search/metadata")
    def search() -> Response:
        return Response(body, media_type="application/json")

    with running(app) as address:
        assert failure(address) == (f"{address} does not answer as immich does: check the address")


def test_an_index_reads_the_metadata(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assets = {
        asset_id(number): StubAsset(f"{colour}.jpg", b"", picture(colour), exif={"city": "Lisbon"})
        for number, colour in enumerate(["green", "blue"])
    }
    bare = StubAsset("bare.jpg", b"", None)
    monkeypatch.setenv("IMMICH_API_KEY", KEY)
    out = tmp_path / "immich"
    with running(StubImmich({**assets, asset_id(9): bare}).app()) as address:
        done = CliRunner().invoke(cli, ["import", "immich", address, "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert "2 photos, 2 downloaded, 0 removed; 1 could not be used: see" in done.output
    metadata = read_metadata(out / "metadata.jsonl")  # as `sparta index` does
    for id, asset in assets.items():
        found = metadata[f"{id}.jpg"]
        assert (found["immich_id"], found["name"], found["city"]) == (id, asset.name, "Lisbon")


def test_a_key_is_needed(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["import", "immich", "http://a.example", "--out", str(tmp_path)])
    assert done.exit_code == 1
    assert "set IMMICH_API_KEY to an API key of immich" in str(done.exception)
