"""An immich library: its assets page by page, and the pictures of each."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import httpx

from sparta.addresses import server_address
from sparta.errors import InputError
from sparta.features.record import SKIPPED, Skipped
from sparta.files import writing
from sparta.json_values import Json
from sparta.progress import Progress, no_progress

EXAMPLE = "http://localhost:2283"
PAGE = 1000  # assets, the most that immich answers at once
TIMEOUT = 60.0  # seconds without a byte
CONNECTIONS = 3  # attempts to connect
# Ids become names of files, so that no other text may be one.
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_PERMISSIONS = "asset.read, asset.view and asset.download"


class PictureError(Exception):
    """Why the picture of one asset cannot be had."""


@dataclass(frozen=True)
class Asset:
    """One photo.

    Attributes:
        id: as immich names it.
        version: changes whenever the picture does: the file's checksum, and a hash of what is
            shown, which is another after an edit.
        fields: everything that immich says about it.
    """

    id: str
    version: str
    fields: Json


@dataclass(frozen=True)
class Picture:
    """The content of a picture's file."""

    content: bytes
    media_type: str


class Library:
    """The photos of an immich server that a key, made under Account Settings, may see."""

    def __init__(self, address: str, api_key: str) -> None:
        self.address = server_address(address, EXAMPLE).removesuffix("/api")
        self._http = httpx.Client(
            base_url=f"{self.address}/api/",
            headers={"x-api-key": api_key, "Accept": "application/json, image/*"},
            timeout=TIMEOUT,
            transport=httpx.HTTPTransport(retries=CONNECTIONS),
        )

    def assets(self) -> Iterator[tuple[Asset, int]]:
        """Every photo of the timeline, the oldest first, with the number found so far.

        Raises:
            InputError: if immich does not answer, refuses the key, or answers otherwise.
        """
        page: int | None = 1
        found = 0
        while page is not None:
            wanted = {"type": "IMAGE", "order": "asc", "page": page, "size": PAGE}
            answer = self._json("search/metadata", wanted | {"withExif": True, "withPeople": True})
            try:
                items = [_asset(fields) for fields in answer["assets"]["items"]]
                following = answer["assets"]["nextPage"]
                page = None if following is None else int(following)
            except (KeyError, TypeError, ValueError) as error:
                raise self._not_immich() from error
            found += len(items)
            for asset in items:
                yield asset, found

    def picture(self, asset: Asset, original: bool) -> Picture:
        """The picture of an asset: its file, or the preview that immich has made of it.

        Raises:
            PictureError: if immich has none.
            InputError: if immich does not answer or refuses the key.
        """
        part = "original" if original else "thumbnail?size=preview"
        response = self._send(self._http.build_request("GET", f"assets/{asset.id}/{part}"))
        if response.status_code == 404:
            raise PictureError("immich has no picture of it")
        self._check(response)
        media_type = response.headers.get("content-type", "").partition(";")[0]
        return Picture(response.content, media_type)

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _json(self, path: str, body: Json) -> Any:
        response = self._send(self._http.build_request("POST", path, json=body))
        self._check(response)
        try:
            return response.json()
        except ValueError as error:
            raise self._not_immich() from error

    def _send(self, request: httpx.Request) -> httpx.Response:
        try:
            return self._http.send(request)
        except httpx.TransportError as error:
            reason = str(error) or type(error).__name__
            raise InputError(f"{self.address} does not answer: {reason}; try again") from error

    def _check(self, response: httpx.Response) -> None:
        if response.status_code in (401, 403):
            raise InputError(
                f"{self.address} refuses the API key (status {response.status_code}): it must "
                f"allow {_PERMISSIONS}"
            )
        if response.is_error:
            raise InputError(
                f"{self.address} answered {response.status_code} to {response.url.path}; what is "
                "downloaded remains, run the command again to continue"
            )

    def _not_immich(self) -> InputError:
        return InputError(f"{self.address} does not answer as immich does: check the address")


def _asset(fields: Json) -> Asset:
    if not _ID.fullmatch(fields["id"]):
        raise ValueError(f"{fields['id']!r} is no UUID")
    return Asset(fields["id"], f"{fields['checksum']} {fields['thumbhash']}", fields)


# ---- a folder with the photos of a library and their metadata ------------------------------------

PHOTOS, METADATA = "photos", "metadata.jsonl"
VERSION = "version"  # in a line of METADATA: that of the picture in the folder
_KINDS = ("webp", "png", "avif", "heic", "heif", "gif", "bmp", "jp2")
SUFFIXES = {"image/jpeg": ".jpg", "image/tiff": ".tif"}
SUFFIXES |= {f"image/{kind}": f".{kind}" for kind in _KINDS}
# Fields of an asset's EXIF data that are stored under their own names.
_EXIF = (
    *("description", "city", "state", "country", "latitude", "longitude", "make", "model"),
    *("rating", "lensModel", "iso", "fNumber", "focalLength", "orientation"),
)


@dataclass
class Downloaded:
    """What a download did.

    Attributes:
        photos: in the folder now.
        new: pictures that were downloaded.
        removed: pictures of assets that the library has no more.
        skipped: assets without a picture that can be indexed, with the reasons.
    """

    photos: int = 0
    new: int = 0
    removed: int = 0
    skipped: list[Skipped] = field(default_factory=list)


def download(
    library: Library, out: str | Path, original: bool = False, progress: Progress = no_progress
) -> Downloaded:
    """Make a folder equal to a library: `photos/ID.jpg` and so on, and `metadata.jsonl`.

    Pictures that are there already are not downloaded again, unless they have changed in immich,
    so that an interrupted run continues. Pictures of assets that are gone are deleted, others in
    the folder are left alone.

    Args:
        library: of immich.
        out: the folder.
        original: whether the files themselves are downloaded, instead of immich's previews.
        progress: stage "download", in photos; the total is what immich has listed so far.

    Raises:
        InputError: if immich does not answer or refuses the key, the folder's metadata cannot be
            read, or another process writes it.
    """
    out = Path(out)
    (out / PHOTOS).mkdir(parents=True, exist_ok=True)
    with writing(out):
        before = _read(out / METADATA)
        done = Downloaded()
        lines: dict[str, Json] = {}
        for asset, total in library.assets():
            try:
                version = f"{asset.version} original" if original else asset.version
                name = _present(asset.id, version, out, before)
                name = name or _fetch(library, asset, out, original, done)
                lines[name] = metadata(asset, library.address) | {VERSION: version}
            except PictureError as error:
                done.skipped.append(Skipped(asset.id, str(error)))
            except IsADirectoryError:
                done.skipped.append(Skipped(asset.id, "a folder has the name of its picture"))
            progress("download", len(lines) + len(done.skipped), total)
        for name in before.keys() - lines.keys():
            if not (out / PHOTOS / name).is_dir():  # which is the user's
                (out / PHOTOS / name).unlink(missing_ok=True)
                done.removed += 1
        done.photos = len(lines)
        _write(out / METADATA, ({"image": name} | line for name, line in lines.items()))
        _write(out / SKIPPED, ({"id": s.image_id, "reason": s.reason} for s in done.skipped))
    return done


def _present(asset_id: str, version: str, out: Path, before: dict[str, str]) -> str | None:
    """The name of an asset's picture, if it is there in this version.

    A picture that is there without a line was downloaded by a run that was interrupted.
    """
    for suffix in SUFFIXES.values():
        name = asset_id + suffix
        if (out / PHOTOS / name).is_file() and before.get(name, version) == version:
            return name
    return None


def _fetch(library: Library, asset: Asset, out: Path, original: bool, done: Downloaded) -> str:
    picture = library.picture(asset, original)
    suffix = SUFFIXES.get(picture.media_type)
    if suffix is None:
        raise PictureError(f"{picture.media_type} is not indexed; previews are, in any case")
    name = asset.id + suffix
    part = out / PHOTOS / f".{name}.part"
    part.write_bytes(picture.content)
    part.replace(out / PHOTOS / name)
    done.new += 1
    return name


def _read(path: Path) -> dict[str, str]:
    """The lines of an earlier run: name of the picture → its version."""
    if not path.is_file():
        return {}
    found = {}
    for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            line = json.loads(text)
            name = str(line["image"])
            found[name] = str(line[VERSION])
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"{path}, line {number} is damaged: delete the file, and pictures are compared by "
                "name alone"
            ) from error
        if Path(name).name != name:
            raise InputError(f"{path}, line {number}: {name!r} is not the name of a picture")
    return found


def _write(path: Path, lines: Iterator[Json]) -> None:
    part = path.with_name(f".{path.name}.part")
    with part.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def metadata(asset: Asset, address: str) -> Json:
    """What is stored about a photo; fields without a value are left out."""
    fields = asset.fields
    exif = fields.get("exifInfo") or {}
    found: Json = {
        "immich_id": asset.id,
        "page": f"{address}/photos/{asset.id}",
        "name": fields.get("originalFileName"),
        "taken": fields.get("localDateTime"),
        "favourite": fields.get("isFavorite") or None,
        "people": [person["name"] for person in fields.get("people") or [] if person["name"]],
        "tags": [tag["name"] for tag in fields.get("tags") or []],
    }
    found |= {name: exif.get(name) for name in _EXIF} | {"bytes": exif.get("fileSizeInByte")}
    return {name: value for name, value in found.items() if value not in (None, "", [])}
