"""Pictures of photos, named by the content of the photo's file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, Literal, get_args

from PIL import Image

from server.publish.folder import SiteFolder, digest
from server.publish.stripping import stripped
from sparta.features.extract.image_files import (
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


@dataclass(frozen=True)
class Pictures:
    """Which pictures of a photo are published.

    Attributes:
        sizes: of the longer side at most in pixels, rising; a photo that is smaller than one has
            none of the sizes above that.
        format: of those.
        originals: whether the file of the photo is published, too.
        exif: whether that keeps what it says about itself.
    """

    sizes: tuple[int, ...]
    format: Format = "webp"
    originals: bool = False
    exif: bool = False

    def about(self) -> dict[str, Any]:
        """What the index says about pictures."""
        return {"sizes": self.sizes, "suffix": f".{self.format}", "originals": self.originals}


@dataclass(frozen=True)
class Photo:
    """A photo to publish.

    Attributes:
        path: of its file, or why it has none.
        longer: its longer side in pixels, None if unknown.
    """

    path: Path | PhotoError
    longer: int | None


def publish_photos(
    site: SiteFolder, photos: Iterable[Photo], pictures: Pictures
) -> Iterator[str | PhotoError]:
    """Write the pictures of photos that are not there yet, as many at once as there are cores.

    Yields:
        the name of each photo's pictures, or why its file cannot be used.
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
    if isinstance(photo.path, PhotoError):
        return photo.path
    try:
        with open_photo(photo.path) as file:
            content = file.read()
        # An original that tells less than one published before is another file.
        name = digest(content + b"with EXIF" if pictures.exif else content)
        for size in _sizes(photo, pictures):
            path = f"photos/{size}-{name}.{pictures.format}"
            if not site.has(path):
                site.put(path, _picture(photo.path, size, pictures.format))
        return name + _publish_original(site, photo.path, name, content, pictures)
    except Exception as error:  # anything may come out of a damaged file
        return PhotoError(reason_of(error))


def _sizes(photo: Photo, pictures: Pictures) -> Iterator[int]:
    for size in pictures.sizes:
        yield size
        if photo.longer is not None and size >= photo.longer:
            return


def _picture(path: Path, size: int, kind: Format) -> bytes:
    """A photo as a picture without metadata: upright, and no larger than the photo."""
    return _encoded(small_picture(path, size), kind, QUALITY[kind])


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
