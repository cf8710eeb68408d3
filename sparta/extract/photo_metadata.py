"""What photos and files beside them say: EXIF, XMP and IPTC, by the names that immich uses."""

from __future__ import annotations

import codecs
import json
import math
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar
from xml.etree import ElementTree

from PIL import ExifTags, ImageFile, IptcImagePlugin

from sparta.addresses import folder_at, is_remote
from sparta.extract.image_files import open_image, open_photo
from sparta.json_values import Json, JsonMapping

LONGEST = 2000  # characters of a text
LARGEST = 2**22  # bytes of a file beside a photo
EARLIEST = 1000  # year; earlier ones are how software writes "unknown"
_MOMENT = re.compile(
    r"(\d{4})(?:[:/.年-](\d\d?)[:/.月-](\d\d?)日?|(\d\d)(\d\d))"
    r"(?:(?:[\sT,:]+|(?<=\d{8}))(?:(\d\d?):(\d\d?)(?::(\d\d?))?|(\d\d)(\d\d)(\d\d)?)(?:[.,]\d*)?"
    r"\s*([ap]m)?\s*(?:Z|UTC|GMT)?\s*(?:[+-]\d\d:?\d\d)?)?",
    re.ASCII | re.IGNORECASE,
)
_XMP, _EXIF = "{http://ns.adobe.com/xap/1.0/}", "{http://ns.adobe.com/exif/1.0/}"
_PHOTOSHOP = "{http://ns.adobe.com/photoshop/1.0/}"
_DC = "{http://purl.org/dc/elements/1.1/}"
_RDF = "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}"
_XMP_DATES = (
    f"{_EXIF}DateTimeOriginal",
    f"{_PHOTOSHOP}DateCreated",
    f"{_EXIF}DateTimeDigitized",
    f"{_XMP}CreateDate",
)
_UNIT = r"\s*(?:,|°|deg|['\u2032\"\u2033])\s*"
_XMP_DEGREES = re.compile(
    rf"([NSEW]?)\s*([\d.]+)(?:{_UNIT}([\d.]+))?(?:{_UNIT}([\d.]+))?(?:{_UNIT})?\s*([NSEW]?)",
    re.ASCII | re.IGNORECASE,
)
# What no XML may have: an "&" that begins no entity, control characters, references to them.
_NO_XML = re.compile(
    r"[\0-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]|&#(?:x0*[01]?[\da-f]|0*[0-2]?\d|0*3[01]);", re.I
)
_NO_ENTITY = re.compile(r"&(?!(?:amp|lt|gt|quot|apos|#\d+|#x[\dA-Fa-f]+);)")
_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
_IPTC_KEYWORDS, _IPTC_CAPTION = (2, 25), (2, 120)
_IPTC_DATE, _IPTC_TIME = (2, 55), (2, 60)
_XMP_TAG = 700  # of TIFF
_RATING, _WINDOWS_KEYWORDS = 0x4746, 0x9C9E  # EXIF tags of Windows, which Pillow has no names for
_POSITION = "position"  # both coordinates: one alone, or of another source, means nothing
# Of several parts that have these, the camera's own counts; of others, what was written last.
_OF_CAMERA = ("taken", _POSITION)
_TAKEOUT = 46  # characters of the names of Takeout's files, without .json
Result = TypeVar("Result")
_COPY = re.compile(r"(.*)(\(\d+\))(\.\w+)")  # of a photo whose name another one has


def photo_metadata(path: str | Path) -> Json:
    """The fields of a photo; those it lacks are left out, and so is what is damaged.

    Files beside it count too, unless another machine has it: what `a.jpg.xmp` or `a.xmp` says
    comes first, what Google Takeout wrote into `a.jpg.json` last.

    Returns:
        `bytes`, and where present `taken` (the camera's clock), `make`, `model`, `lensModel`,
        `iso`, `fNumber`, `focalLength` (millimetres), `exposureTime` (seconds), `orientation` (of
        EXIF, 1 to 8), `latitude`, `longitude`, `rating`, `tags` and `description`.

    Raises:
        OSError: if there is no such file.
    """
    path = folder_at(path)
    size, found = path.stat().st_size, _try(_embedded, path) or {}
    for name in () if is_remote(path) else _xmp_names(path.name):
        if content := _try(_content, path.with_name(name)):
            found |= _said(_xmp, content)
            break
    for name in () if is_remote(path) else _takeout_names(path.name):
        if content := _try(_content, path.with_name(name)):
            found = _said(_takeout, content) | found
            break
    if position := found.pop(_POSITION, None):
        found |= {"latitude": position[0], "longitude": position[1]}
    return {"bytes": size, **found}


def _try(read: Callable[..., Result], *args: Any) -> Result | None:
    """What a function returns, None if it fails: anything may come out of a damaged file."""
    try:
        return read(*args)
    except Exception:  # the rest of the file may be whole
        return None


def _said(read: Callable[[Any], JsonMapping], source: Any) -> dict[str, Any]:
    """The fields that a part of a file has."""
    part = _try(read, source) or {}
    return {name: value for name, value in part.items() if value not in (None, [])}


def _content(path: Path) -> bytes:
    """The content of a file beside a photo."""
    with open_photo(path) as file:
        return file.read(LARGEST)


def _embedded(path: Path) -> dict[str, Any]:
    """What the parts of the photo's file say."""
    found: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with open_image(path) as image:
            for read in (_exif, _iptc, _xmp_of):
                kept = {name: found[name] for name in _OF_CAMERA if name in found}
                found |= _said(read, image) | kept
    return found


def _exif(image: ImageFile.ImageFile) -> JsonMapping:
    exif, base, names = image.getexif(), ExifTags.Base, ExifTags.GPS

    def tags(block: Any) -> Callable[[int], Any]:
        return lambda tag: _try(block.get, tag)  # each may be damaged by itself

    plain = tags(exif)
    camera, gps = (
        tags(_try(exif.get_ifd, one)) for one in (ExifTags.IFD.Exif, ExifTags.IFD.GPSInfo)
    )
    dates = camera(base.DateTimeOriginal), camera(base.DateTimeDigitized), plain(base.DateTime)
    return {
        "taken": _first_moment(*dates),
        "make": _text(plain(base.Make)),
        "model": _text(plain(base.Model)),
        "lensModel": _text(camera(base.LensModel)),
        "iso": _number(camera(base.ISOSpeedRatings)),
        "fNumber": _number(camera(base.FNumber)),
        "focalLength": _number(camera(base.FocalLength)),
        "exposureTime": _number(camera(base.ExposureTime)),
        "orientation": _number(plain(base.Orientation)),
        "description": _text(plain(base.ImageDescription)),
        "rating": _number(plain(_RATING)),
        "tags": _windows_keywords(plain(_WINDOWS_KEYWORDS)),
        _POSITION: _position(
            _degrees(gps(names.GPSLatitude), gps(names.GPSLatitudeRef)),
            _degrees(gps(names.GPSLongitude), gps(names.GPSLongitudeRef)),
        ),
    }


def _iptc(image: ImageFile.ImageFile) -> JsonMapping:
    records = IptcImagePlugin.getiptcinfo(image) or {}

    def values(record: tuple[int, int]) -> list[str]:
        found: Any = records.get(record, [])
        found = found if isinstance(found, list) else [found]
        return [text for one in found if (text := _text(one))]

    dates = values(_IPTC_DATE)
    whole = [" ".join(moment) for moment in zip(dates, values(_IPTC_TIME), strict=False)]
    return {
        "taken": _first_moment(*whole, *dates),
        "tags": values(_IPTC_KEYWORDS),
        "description": next(iter(values(_IPTC_CAPTION)), None),
    }


def _xmp_of(image: ImageFile.ImageFile) -> JsonMapping:
    packet = image.info.get("xmp") or image.info.get("XML:com.adobe.xmp")
    if packet is None and hasattr(image, "tag_v2"):
        packet = image.tag_v2.get(_XMP_TAG)
    return _xmp(packet.encode() if isinstance(packet, str) else bytes(packet or b""))


def _xmp(content: bytes) -> JsonMapping:
    packet = _NO_ENTITY.sub("&amp;", _NO_XML.sub("", _decoded(content))).lstrip("\ufeff \t\r\n")
    if "<!DOCTYPE" in packet or "<!ENTITY" in packet:
        return {}  # XMP has no document type, in which entities could grow without end
    parser: Any = ElementTree.XMLPullParser(("start",))
    parser.feed(packet)  # of a damaged or cut one the tree has what is before the damage
    root: ElementTree.Element = next(parser.read_events())[1]

    def values(name: str) -> Iterator[str]:
        """Attributes, and elements or the items of lists in them, those of any language first."""
        for one in root.iter(f"{_RDF}Description"):
            yield one.get(name, "")
        for element in root.iter(name):
            items = sorted(
                element.iter(f"{_RDF}li"), key=lambda one: one.get(_LANGUAGE) != "x-default"
            )
            yield from (one.text or "" for one in items or [element])

    ratings = [_number(one) for one in values(f"{_XMP}Rating")]
    degrees = [
        next(filter(None, map(_xmp_degrees, values(f"{_EXIF}GPS{name}"))), None)
        for name in ("Latitude", "Longitude")
    ]
    return {
        "taken": _first_moment(*(one for name in _XMP_DATES for one in values(name))),
        "rating": next((rating for rating in ratings if rating is not None), None),
        "tags": [text for word in values(f"{_DC}subject") if (text := _text(word))],
        "description": next(filter(None, map(_text, values(f"{_DC}description"))), None),
        _POSITION: _position(*degrees),
    }


def files_beside(image_id: str) -> Iterator[str]:
    """Paths of the files that may say something about a photo, relative to what its path is."""
    folder, slash, name = image_id.rpartition("/")
    for beside in (*_xmp_names(name), *_takeout_names(name)):
        yield f"{folder}{slash}{beside}"


def _xmp_names(name: str) -> tuple[str, ...]:
    return tuple(f"{one}{end}" for one in (name, Path(name).stem) for end in (".xmp", ".XMP"))


def _takeout_names(name: str) -> Iterator[str]:
    """How Google Takeout names the file about a photo: older ways, newer ones, and of copies."""
    copy = _COPY.fullmatch(name)
    names = [(name, ""), *([(copy[1] + copy[3], copy[2])] if copy else [])]
    # A photo that was edited there has no file of its own.
    names += [(one.replace("-edited", ""), number) for one, number in names if "-edited" in one]
    for plain, number in names:
        for whole in (f"{plain}.supplemental-metadata", plain):
            yield f"{whole[:_TAKEOUT]}{number}.json"


def _takeout(content: bytes) -> JsonMapping:
    said = json.loads(content)

    def place(name: str) -> tuple[float, float] | None:
        return _position(_number(said[name]["latitude"]), _number(said[name]["longitude"]))

    def taken() -> str:
        return datetime.fromtimestamp(int(said["photoTakenTime"]["timestamp"]), UTC).isoformat()

    return {
        "taken": _first_moment(_try(taken)),
        "description": _text(said.get("description")),
        _POSITION: _try(place, "geoData") or _try(place, "geoDataExif"),
    }


def _text(value: Any) -> str | None:
    if isinstance(value, str) and not value.isascii():
        with suppress(UnicodeEncodeError):
            value = value.encode("latin-1")  # as Pillow reads EXIF, whatever was written
    if isinstance(value, bytes):
        value = _decoded(value)
    if not isinstance(value, str):
        return None
    return value.replace("\0", "").strip()[:LONGEST] or None


def _decoded(text: bytes) -> str:
    """A text with a byte order mark, in UTF-8, or in what Windows or a camera may have written."""
    marks = [(codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF16_LE, "utf-16")]
    marks += [(codecs.BOM_UTF32_BE, "utf-32"), (codecs.BOM_UTF16_BE, "utf-16")]
    marked = [encoding for mark, encoding in marks if text.startswith(mark)]
    for encoding in (*marked[:1], "utf-8-sig", "cp1252"):
        try:
            return text.decode(encoding)
        except UnicodeDecodeError as error:
            # Fields of a fixed length cut characters, which two bytes or other letters show.
            if encoding == "utf-8-sig" and error.reason == "unexpected end of data":
                whole = text[: error.start].decode(encoding)
                if not whole.isascii() or len(text) - error.start > 1:
                    return whole
    return text.decode("latin-1")


def _number(value: Any) -> int | float | None:
    if isinstance(value, tuple):
        value = value[0] if value else None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError, ZeroDivisionError):
        return None
    if not math.isfinite(number):
        return None
    return int(number) if number.is_integer() else round(number, 6)


def _first_moment(*values: Any) -> str | None:
    """The first of some dates that is possible, to the day, minute or second."""
    for value in values:
        date, _, time = (_text(value) or "").partition(" ")
        # A clock that was not set leaves blanks and signs.
        written = _MOMENT.fullmatch(f"{date} {time}" if time.strip(" :-") else date)
        if written is None:
            continue
        *found, half = written.groups()
        parts = [int(part) for part in found if part is not None]
        if half:
            parts[3] = parts[3] % 12 + 12 * (half.lower() == "pm")
        try:
            moment = datetime(*parts)  # type: ignore[arg-type]
        except ValueError:
            continue
        if moment.year >= EARLIEST:
            return moment.isoformat()[: {3: 10, 5: 16, 6: 19}[len(parts)]]
    return None


def _position(latitude: float | None, longitude: float | None) -> tuple[float, float] | None:
    if latitude is None or longitude is None or not (latitude or longitude):
        return None  # a camera without reception writes zeros
    on_earth = abs(latitude) <= 90 and abs(longitude) <= 180
    return (latitude, longitude) if on_earth else None


def _degrees(value: Any, side: Any) -> float | None:
    """Degrees, minutes and seconds as one number, below 0 in the south and in the west."""
    parts = [_number(one) for one in value] if isinstance(value, tuple) else []
    if len(parts) != 3 or None in parts:
        return None
    found: float = sum(part / 60**place for place, part in enumerate(parts) if part)
    return round(-found if (_text(side) or "N")[0] in "SWsw" else found, 7)


def _xmp_degrees(text: str) -> float | None:
    """Degrees such as 43,17.8N or 43° 17' 48" N; or a number, as some programs write."""
    if written := _XMP_DEGREES.fullmatch(text.strip()):
        first, *parts, last = written.groups()
        return _degrees(tuple(part or "0" for part in parts), first or last)
    return _number(text)


def _windows_keywords(value: Any) -> list[str]:
    if not isinstance(value, bytes):
        return []
    words = value.decode("utf-16-le", errors="replace").split(";")
    return [text for word in words if (text := _text(word))]
