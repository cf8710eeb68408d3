"""What a photo's file says about it: EXIF, XMP and IPTC, by the names that immich uses."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from PIL import ExifTags, ImageFile, IptcImagePlugin

from sparta.addresses import folder_at
from sparta.extract.image_files import open_image
from sparta.json_values import Json, JsonMapping

LONGEST = 2000  # characters of a text
_TAKEN = re.compile(r"(\d{4})[:-](\d\d)[:-](\d\d)[ T](\d\d:\d\d:\d\d)")
_XMP = "{http://ns.adobe.com/xap/1.0/}"
_DC = "{http://purl.org/dc/elements/1.1/}"
_RDF = "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}"
_IPTC_KEYWORDS = (2, 25)
_XMP_TAG = 700  # of TIFF
_RATING, _WINDOWS_KEYWORDS = 0x4746, 0x9C9E  # EXIF tags of Windows, which Pillow has no names for

Read = Callable[[ImageFile.ImageFile], JsonMapping]


def photo_metadata(path: str | Path) -> Json:
    """The fields of a photo; those it lacks are left out, and so are parts that are damaged.

    Returns:
        `bytes`, and where present `taken` (the camera's clock), `make`, `model`, `lensModel`,
        `iso`, `fNumber`, `focalLength` (millimetres), `exposureTime` (seconds), `orientation` (of
        EXIF, 1 to 8), `latitude`, `longitude`, `rating`, `tags` and `description`.

    Raises:
        OSError: if there is no such file.
    """
    path = folder_at(path)
    found: Json = {"bytes": path.stat().st_size}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with open_image(path) as image:
                for read in (_exif, _position, _iptc, _xmp):
                    found |= _readable(read, image)
    except Exception:  # anything may come out of a damaged file
        return found
    return found


def _readable(read: Read, image: ImageFile.ImageFile) -> Json:
    try:
        return {name: value for name, value in read(image).items() if value not in (None, [])}
    except Exception:  # as above; the other parts may be whole
        return {}


def _exif(image: ImageFile.ImageFile) -> JsonMapping:
    exif = image.getexif()
    camera, base = exif.get_ifd(ExifTags.IFD.Exif), ExifTags.Base
    return {
        "taken": _moment(camera.get(base.DateTimeOriginal) or camera.get(base.DateTimeDigitized)),
        "make": _text(exif.get(base.Make)),
        "model": _text(exif.get(base.Model)),
        "lensModel": _text(camera.get(base.LensModel)),
        "iso": _number(camera.get(base.ISOSpeedRatings)),
        "fNumber": _number(camera.get(base.FNumber)),
        "focalLength": _number(camera.get(base.FocalLength)),
        "exposureTime": _number(camera.get(base.ExposureTime)),
        "orientation": _number(exif.get(base.Orientation)),
        "description": _text(exif.get(base.ImageDescription)),
        "rating": _number(exif.get(_RATING)),
        "tags": _windows_keywords(exif.get(_WINDOWS_KEYWORDS)),
    }


def _position(image: ImageFile.ImageFile) -> JsonMapping:
    gps, names = image.getexif().get_ifd(ExifTags.IFD.GPSInfo), ExifTags.GPS
    latitude = _degrees(gps.get(names.GPSLatitude), gps.get(names.GPSLatitudeRef), "S")
    longitude = _degrees(gps.get(names.GPSLongitude), gps.get(names.GPSLongitudeRef), "W")
    if latitude is None or longitude is None or not (latitude or longitude):
        return {}  # a camera without reception writes zeros
    return {"latitude": latitude, "longitude": longitude}


def _iptc(image: ImageFile.ImageFile) -> JsonMapping:
    records = IptcImagePlugin.getiptcinfo(image) or {}
    found = records.get(_IPTC_KEYWORDS, [])
    keywords = found if isinstance(found, list) else [found]
    return {"tags": [text for word in keywords if (text := _text(word))]}


def _xmp(image: ImageFile.ImageFile) -> JsonMapping:
    packet = image.info.get("xmp") or image.info.get("XML:com.adobe.xmp")
    if packet is None and hasattr(image, "tag_v2"):
        packet = image.tag_v2.get(_XMP_TAG)
    if not packet:
        return {}
    content = packet.encode() if isinstance(packet, str) else bytes(packet)
    if b"<!" in content.split(b"<rdf:RDF")[0]:
        return {}  # XMP has no document type, in which entities could grow without end
    root = ElementTree.fromstring(content.strip(b"\0 \t\r\n"))
    ratings = [_text(one.get(f"{_XMP}Rating")) for one in root.iter(f"{_RDF}Description")]
    ratings += [_text(one.text) for one in root.iter(f"{_XMP}Rating")]
    words = root.iterfind(f".//{_DC}subject//{_RDF}li")
    return {
        "rating": next((_number(float(rating)) for rating in ratings if rating), None),
        "tags": [text for word in words if (text := _text(word.text))],
    }


def _text(value: Any) -> str | None:
    if isinstance(value, bytes):
        value = value.decode("utf-8", errors="replace")
    if not isinstance(value, str):
        return None
    return value.replace("\0", "").strip()[:LONGEST] or None


def _number(value: Any) -> int | float | None:
    if isinstance(value, tuple):
        value = value[0] if value else None
    if value is None:
        return None
    number = float(value)
    if not math.isfinite(number):
        return None
    return int(number) if number.is_integer() else round(number, 6)


def _moment(value: Any) -> str | None:
    written = _TAKEN.match(_text(value) or "")
    if written is None or written[1] == "0000":
        return None
    return f"{written[1]}-{written[2]}-{written[3]}T{written[4]}"


def _degrees(value: Any, side: Any, negative: str) -> float | None:
    if not isinstance(value, tuple) or len(value) != 3:
        return None
    degrees, minutes, seconds = map(float, value)
    found = degrees + minutes / 60 + seconds / 3600
    if not math.isfinite(found):
        return None
    return round(-found if _text(side) == negative else found, 7)


def _windows_keywords(value: Any) -> list[str]:
    if not isinstance(value, bytes):
        return []
    words = value.decode("utf-16-le", errors="replace").split(";")
    return [text for word in words if (text := _text(word))]
