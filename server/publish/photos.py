"""Pictures of photos, named by the content of the photo's file."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Literal, get_args

from PIL import ExifTags, Image

from server.publish.folder import SiteFolder, digest
from sparta.extract.image_files import (
    PhotoError,
    load_photo,
    open_photo,
    reason_of,
    small_picture,
)

Format = Literal["webp", "avif"]
FORMATS: tuple[Format, ...] = get_args(Format)
QUALITY: Mapping[str, int] = {"webp": 75, "avif": 60}
ORIGINAL_QUALITY = 90  # of photos whose format no browser knows
AT_ONCE = 64  # photos that are read ahead
_SOI, _EOI, _SOS, _COM = 0xD8, 0xD9, 0xDA, 0xFE
_APPS, _RESTARTS = range(0xE0, 0xF0), range(0xD0, 0xD8)
_KEPT_APPS = {0xE0: b"JFIF\0", 0xE2: b"ICC_PROFILE\0", 0xEE: b"Adobe"}
_PNG = b"\x89PNG\r\n\x1a\n"
# Beside the critical chunks, those that say how pixels look, and the frames of animations.
_KEPT_CHUNKS = {*b"tRNS gAMA cHRM sRGB iCCP sBIT bKGD acTL fcTL fdAT".split()}
_EXIF_FLAGS = 0x08 | 0x04  # of EXIF and XMP in a WebP's header


@dataclass(frozen=True)
class Pictures:
    """Which pictures of a photo are published."""

    # Of the longer side at most in pixels, rising; a photo that is smaller than one has none of the
    # sizes above that
    sizes: tuple[int, ...]
    format: Format = "webp"  # of those
    originals: bool = False  # whether the file of the photo is published, too
    exif: bool = False  # whether that keeps what it says about itself


# Of its file, or why it has none; and its longer side in pixels, None if unknown.
Photo = tuple[Path | PhotoError, int | None]


def publish_photos(
    site: SiteFolder, photos: Iterable[Photo], pictures: Pictures
) -> Iterator[str | PhotoError]:
    """Write the pictures of photos that are not there yet, as many at once as there are cores.

    Yields the name of each photo's pictures, or why its file cannot be used.
    """
    with ThreadPoolExecutor() as pool:
        waiting = []
        for photo in photos:
            waiting.append(pool.submit(_publish, site, photo, pictures))
            if len(waiting) > AT_ONCE:
                yield waiting.pop(0).result()
        for one in waiting:
            yield one.result()


def _publish(site: SiteFolder, photo: Photo, pictures: Pictures) -> str | PhotoError:
    path, longer = photo
    if isinstance(path, PhotoError):
        return path
    try:
        with open_photo(path) as file:
            content = file.read()
        # An original that tells less than one published before is another file.
        name = digest(content + b"with EXIF" if pictures.exif else content)
        for size in pictures.sizes:
            place = f"photos/{size}-{name}.{pictures.format}"
            if not site.has(place):
                picture = small_picture(path, size)  # upright, and no larger than the photo
                site.put(place, _encoded(picture, pictures.format, QUALITY[pictures.format]))
            if longer is not None and size >= longer:
                break
        return name + _publish_original(site, path, name, content, pictures)
    except Exception as error:  # anything may come out of a damaged file
        return PhotoError(reason_of(error))


def _encoded(image: Image.Image, kind: str, quality: int) -> bytes:
    out = BytesIO()
    image.save(out, kind.upper(), quality=quality)
    return out.getvalue()


def _publish_original(
    site: SiteFolder, path: Path, name: str, content: bytes, pictures: Pictures
) -> str:
    """Write the file of a photo; returns the suffix of its name, none if it is not published."""
    if not pictures.originals:
        return ""
    found = stripped(content) or (None, ".webp")
    suffix = found[1]
    if not site.has(f"photos/original-{name}{suffix}"):
        known = content if pictures.exif and found[0] is not None else found[0]
        made = known or _encoded(load_photo(path).image, "webp", ORIGINAL_QUALITY)
        site.put(f"photos/original-{name}{suffix}", made)
    return suffix


# Photo files without what they say about themselves: EXIF, positions, texts, and hidden pictures.
#
# The pixels stay as they are. Colour profiles stay too, and of EXIF which side of a JPEG is up.


def stripped(content: bytes) -> tuple[bytes, str] | None:
    """A photo file without metadata, and the suffix of its name; None if its format is another.

    Raises ValueError, IndexError or struct.error if it is damaged.
    """
    if content[:2] == b"\xff\xd8":
        return _jpeg(content), ".jpg"
    if content[:8] == _PNG:
        return _png(content), ".png"
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return _webp(content), ".webp"
    return None


def _jpeg(content: bytes) -> bytes:
    """The segments of a JPEG up to its end, after which cameras hide videos and larger previews."""
    kept = [b"\xff\xd8", _orientation(content)]
    for marker, segment in _segments(content):
        if marker in _APPS:
            start = _KEPT_APPS.get(marker)
            if start is None or segment[4 : 4 + len(start)] != start:
                continue
        if marker != _COM:
            kept.append(segment)
    return b"".join(kept)


def _segments(content: bytes) -> Iterator[tuple[int, bytes]]:
    """The segments after the first, each with its marker; a scan has its data."""
    at = 2
    while True:
        while content[at : at + 2] == b"\xff\xff":  # padding
            at += 1
        if content[at] != 0xFF:
            raise ValueError("a JPEG is damaged")
        marker = content[at + 1]
        if marker == _EOI:
            yield marker, b"\xff\xd9"
            return
        end = at + 2 + struct.unpack_from(">H", content, at + 2)[0]
        if marker == _SOS:
            end = _end_of_scan(content, end)
        yield marker, content[at:end]
        at = end


def _end_of_scan(content: bytes, at: int) -> int:
    while True:
        at = content.index(b"\xff", at)
        if content[at + 1] != 0 and content[at + 1] not in _RESTARTS:
            return at
        at += 2


def _orientation(content: bytes) -> bytes:
    """A segment of EXIF with the orientation alone, empty if that is as usual."""
    with Image.open(BytesIO(content), formats=["JPEG"]) as image:
        found = image.getexif().get(ExifTags.Base.Orientation, 1)
    if found not in range(2, 9):
        return b""
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = found
    body = exif.tobytes()
    return b"\xff\xe1" + struct.pack(">H", len(body) + 2) + body


def _png(content: bytes) -> bytes:
    kept, at = [_PNG], len(_PNG)
    while True:
        length, kind = struct.unpack_from(">I4s", content, at)
        end = at + 12 + length
        if end > len(content):
            raise ValueError("a PNG is damaged")
        if not kind[0] & 0x20 or kind in _KEPT_CHUNKS:
            kept.append(content[at:end])
        if kind == b"IEND":
            return b"".join(kept)
        at = end


def _webp(content: bytes) -> bytes:
    kept, at = [], 12
    last = 8 + struct.unpack_from("<I", content, 4)[0]
    while at + 8 <= min(last, len(content)):
        kind, length = struct.unpack_from("<4sI", content, at)
        chunk = content[at : at + 8 + length + length % 2]
        if kind == b"VP8X":
            chunk = chunk[:8] + bytes([chunk[8] & ~_EXIF_FLAGS]) + chunk[9:]
        if kind not in (b"EXIF", b"XMP "):
            kept.append(chunk)
        at += len(chunk)
    body = b"WEBP" + b"".join(kept)
    return b"RIFF" + struct.pack("<I", len(body)) + body
