"""EXIF, XMP and IPTC of photos."""

import struct
from pathlib import Path
from typing import Any

import pytest
from PIL import ExifTags, Image
from PIL.TiffImagePlugin import IFDRational

from sparta.extract.photo_metadata import photo_metadata

XMP = """<x:xmpmeta xmlns:x="adobe:ns:meta/">
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">
<rdf:Description xmlns:xmp="http://ns.adobe.com/xap/1.0/" {rating}
 xmlns:dc="http://purl.org/dc/elements/1.1/">
 <dc:subject><rdf:Bag><rdf:li>dog</rdf:li><rdf:li> été </rdf:li><rdf:li/></rdf:Bag></dc:subject>
 {more}
</rdf:Description></rdf:RDF></x:xmpmeta>"""


def exif_of(base: dict[int, Any], camera: dict[int, Any], gps: dict[int, Any]) -> Image.Exif:
    exif = Image.Exif()
    exif.update(base)
    exif.get_ifd(ExifTags.IFD.Exif).update(camera)
    exif.get_ifd(ExifTags.IFD.GPSInfo).update(gps)
    return exif


def saved(path: Path, **options: Any) -> dict[str, Any]:
    """The metadata of a small photo that is saved so."""
    Image.new("RGB", (20, 30)).save(path, **options)
    found = photo_metadata(path)
    assert found.pop("bytes") == path.stat().st_size
    return found


def test_exif(tmp_path: Path) -> None:
    base, gps = ExifTags.Base, ExifTags.GPS
    plain: dict[int, Any] = {base.Make: "Canon\0 ", base.Model: "EOS 5D", base.Orientation: 6}
    plain |= {base.ImageDescription: "a dog", 0x4746: 4}
    plain |= {0x9C9E: "dog;beach; ".encode("utf-16-le")}
    camera: dict[int, Any] = {base.DateTimeOriginal: "2024:06:01 18:30:05"}
    camera |= {base.LensModel: "EF 50mm", base.ISOSpeedRatings: 400}
    camera |= {base.FNumber: IFDRational(28, 10), base.FocalLength: IFDRational(50, 1)}
    camera |= {base.ExposureTime: IFDRational(1, 250)}
    place: dict[int, Any] = {gps.GPSLatitude: (33.0, 51.0, 54.5), gps.GPSLatitudeRef: "S"}
    place |= {gps.GPSLongitude: (151.0, 12.0, 36.0), gps.GPSLongitudeRef: "E"}
    wanted: dict[str, Any] = {"taken": "2024-06-01T18:30:05", "make": "Canon", "model": "EOS 5D"}
    wanted |= {"lensModel": "EF 50mm", "iso": 400, "fNumber": 2.8, "focalLength": 50}
    wanted |= {"exposureTime": 0.004, "orientation": 6, "latitude": -33.8651389}
    wanted |= {"longitude": 151.21, "rating": 4, "tags": ["dog", "beach"], "description": "a dog"}
    assert saved(tmp_path / "a.jpg", exif=exif_of(plain, camera, place)) == wanted


NOTHING: dict[int, Any] = {
    ExifTags.Base.DateTimeOriginal: "0000:00:00 00:00:00",
    ExifTags.Base.FNumber: IFDRational(0, 0),
    ExifTags.Base.LensModel: "  ",
}


@pytest.mark.parametrize(
    ("camera", "gps"),
    [
        ({}, {2: (0.0, 0.0, 0.0), 1: "N", 4: (0.0, 0.0, 0.0), 3: "E"}),
        ({}, {2: (1.0, 2.0, 3.0), 1: "N"}),
        ({}, {2: (1.0, 2.0), 1: "N", 4: (1.0, 2.0, 3.0), 3: "E"}),
        ({}, {2: (IFDRational(1, 0), 0.0, 0.0), 1: "N", 4: (1.0, 2.0, 3.0), 3: "E"}),
        (NOTHING, {}),
    ],
)
def test_values_that_are_none(camera: dict[int, Any], gps: dict[int, Any], tmp_path: Path) -> None:
    assert saved(tmp_path / "a.jpg", exif=exif_of({}, camera, gps)) == {}


def test_the_digitising_time_takes_the_place_of_one_that_is_missing(tmp_path: Path) -> None:
    base = ExifTags.Base
    exif = exif_of(
        {}, {base.DateTimeDigitized: "2024:06:01 18:30:05", base.ISOSpeedRatings: (200, 0)}, {}
    )
    found = saved(tmp_path / "b.jpg", exif=exif)
    assert found == {"taken": "2024-06-01T18:30:05", "iso": 200}


@pytest.mark.parametrize(
    "packet",
    [
        XMP.format(rating='xmp:Rating="3"', more=""),
        XMP.format(rating="", more="<xmp:Rating>3</xmp:Rating>"),
    ],
)
@pytest.mark.parametrize("suffix", [".jpg", ".webp", ".png", ".tif"])
def test_xmp(packet: str, suffix: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"xmp": packet.encode()}
    if suffix == ".tif":
        options = {"tiffinfo": {700: packet.encode()}}
    if suffix == ".png":
        from PIL.PngImagePlugin import PngInfo

        info = PngInfo()
        info.add_itxt("XML:com.adobe.xmp", packet)
        options = {"pnginfo": info}
    assert saved(tmp_path / f"a{suffix}", **options) == {"rating": 3, "tags": ["dog", "été"]}


def test_xmp_with_entities_or_damage_is_left_out(tmp_path: Path) -> None:
    evil = '<!DOCTYPE x [<!ENTITY a "aaaa">]>' + XMP.format(rating="", more="&a;")
    for packet in (evil, "<x:xmpmeta", XMP.format(rating='xmp:Rating="many"', more="")):
        assert saved(tmp_path / "a.jpg", xmp=packet.encode()) == {}


def test_iptc(tmp_path: Path) -> None:
    path = tmp_path / "a.jpg"
    Image.new("RGB", (20, 30)).save(path)
    for words in ([b"dog"], [b"dog", "été".encode()]):
        records = b"".join(b"\x1c\x02\x19" + struct.pack(">H", len(word)) + word for word in words)
        block = b"8BIM\x04\x04\0\0" + struct.pack(">I", len(records)) + records
        block += b"\0" * (len(records) % 2)
        marker = b"Photoshop 3.0\0" + block
        content = path.read_bytes()
        segment = b"\xff\xed" + struct.pack(">H", len(marker) + 2) + marker
        tagged = tmp_path / f"{len(words)}.jpg"
        tagged.write_bytes(content[:2] + segment + content[2:])
        assert photo_metadata(tagged)["tags"] == [word.decode() for word in words]


def test_files_that_are_no_photos(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(b"something else")
    assert photo_metadata(tmp_path / "a.jpg") == {"bytes": 14}
    with pytest.raises(FileNotFoundError):
        photo_metadata(tmp_path / "b.jpg")
