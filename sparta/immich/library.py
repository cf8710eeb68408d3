"""A library: its assets page by page, and the pictures of each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import httpx

from sparta.addresses import server_address
from sparta.errors import InputError

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
    fields: dict[str, Any]


@dataclass(frozen=True)
class Picture:
    """The content of a picture's file.

    Attributes:
        content: of the file.
        media_type: such as `image/jpeg`.
    """

    content: bytes
    media_type: str


class Library:
    """The photos of an immich server that a key may see.

    Args:
        address: of the server, such as `http://immich.local:2283`.
        api_key: made in immich under Account Settings, API Keys.

    Raises:
        InputError: if the address is not one of HTTP.
    """

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

    def _json(self, path: str, body: dict[str, Any]) -> Any:
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


def _asset(fields: dict[str, Any]) -> Asset:
    if not _ID.fullmatch(fields["id"]):
        raise ValueError(f"{fields['id']!r} is no UUID")
    return Asset(fields["id"], f"{fields['checksum']} {fields['thumbhash']}", fields)
