"""A stub of immich: the three requests that an import makes, as its OpenAPI document has them.

No immich has run here. Paths, names and types of fields, and which of them are always there, are
those of the document of version 3.2.2; the rest is made up.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from threading import Thread
from typing import Any

import uvicorn
from fastapi import FastAPI, Header, Response
from fastapi.responses import JSONResponse
from PIL import Image

from server.sockets import listen, url

KEY = "stub-key"
SEARCHED = {"type", "order", "page", "size", "withExif", "withPeople"}


def asset_id(number: int) -> str:
    return f"{number:08x}-0000-4000-8000-000000000000"


def picture(colour: str, kind: str = "JPEG") -> bytes:
    out = BytesIO()
    Image.new("RGB", (96, 64), colour).save(out, kind)
    return out.getvalue()


def person(name: str) -> dict[str, Any]:
    """A person; one that nobody has named has an empty name."""
    unknown = {"id": asset_id(0xFFFE), "birthDate": None, "thumbnailPath": "/data/p.jpg"}
    return unknown | {"name": name, "isHidden": False}


def tag(name: str) -> dict[str, Any]:
    """A tag without a parent."""
    time = "2024-05-01T10:00:00.000Z"
    return {
        "id": asset_id(0xFFFD),
        "name": name,
        "value": name,
        "createdAt": time,
        "updatedAt": time,
    }


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
        """The asset with every field that is always there."""
        time = "2024-05-01T10:00:00.000Z"
        fields = {
            "id": id,
            "type": "IMAGE",
            "ownerId": asset_id(0xFFFF),
            "originalPath": f"/data/library/{self.name}",
            "originalFileName": self.name,
            "originalMimeType": self.original_type,
            "checksum": base64.b64encode(hashlib.sha1(self.original).digest()).decode(),
            "thumbhash": base64.b64encode(hashlib.sha1(self.preview or b"").digest()[:9]).decode(),
            "fileCreatedAt": time,
            "fileModifiedAt": time,
            "localDateTime": time,
            "createdAt": time,
            "updatedAt": time,
            "hasMetadata": True,
            "width": 96,
            "height": 64,
            "duration": None,
            "isArchived": False,
            "isEdited": False,
            "isFavorite": False,
            "isOffline": False,
            "isTrashed": False,
            "visibility": "timeline",
            "people": [],
        }
        return fields | self.fields | {"exifInfo": self.exif}


@dataclass
class StubImmich:
    """The server's state, and what was asked of it.

    Attributes:
        assets: id → photo.
        page: assets a page at most, as if that were immich's limit.
        pictures: paths of the pictures that were asked for.
        broken: paths that are answered with status 500.
    """

    assets: dict[str, StubAsset]
    page: int = 2
    pictures: list[str] = field(default_factory=list)
    broken: set[str] = field(default_factory=set)

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
            found = {
                "items": [self.assets[id].answer(id) for id in ids],
                "count": len(ids),
                "total": len(ids),
                "facets": [],
                "nextPage": str(page + 1) if more else None,
                "nextCursor": None,
            }
            none: dict[str, Any] = {"items": [], "count": 0, "total": 0, "facets": []}
            return JSONResponse({"assets": found, "albums": none})

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
