"""What photos, and files beside them, say that cameras and programs wrote in odd ways."""

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from PIL import ExifTags, Image
from PIL.TiffImagePlugin import IFDRational

from sparta.extract.image_files import load_photo
from sparta.extract.photo_metadata import photo_metadata
from tests.conftest import DATA
from tests.needs import missing
from tests.sparta.extract.test_image_files import exif_of, saved

BASE, GPS = ExifTags.Base, ExifTags.GPS
GOOD = {"taken": "2021-03-04T05:06:07", "make": "Acme", "lensModel": "L", "fNumber": 2.8}


@pytest.mark.parametrize(
    ("plain", "camera"),
    [
        ({}, {BASE.ISOSpeedRatings: "ISO 400"}),
        ({0x4746: "five"}, {}),
        ({}, {BASE.ExposureTime: IFDRational(1, 0), BASE.FocalLength: IFDRational(0, 0)}),
        ({0x9C9E: "dog"}, {BASE.ISOSpeedRatings: "nan"}),
    ],
)
def test_a_value_that_cannot_be_read_costs_no_other(
    plain: dict[int, Any], camera: dict[int, Any], tmp_path: Path
) -> None:
    plain = {BASE.Make: "Acme", **plain}
    camera = {BASE.DateTimeOriginal: "2021:03:04 05:06:07", BASE.LensModel: "L", **camera}
    camera[BASE.FNumber] = IFDRational(28, 10)
    assert saved(tmp_path / "a.jpg", exif=exif_of(plain, camera, {})) == GOOD


@pytest.mark.parametrize(
    ("original", "others", "taken"),
    [
        ("    :  :     :  :  ", ("2021:03:04 05:06:07", ""), "2021-03-04T05:06:07"),
        ("0000:00:00 00:00:00", ("", "2020:02:03 04:05:06"), "2020-02-03T04:05:06"),
        ("2019:02:30 10:00:00", ("2019:03:01 10:00:00", ""), "2019-03-01T10:00:00"),
        ("2015:08:22 24:08:19", ("", ""), None),
        ("0001:01:01 00:00:00", ("", ""), None),
        ("yesterday", ("", "2020:02:03"), "2020-02-03"),
        ("2015:07:08 09:10", ("", ""), "2015-07-08T09:10"),
        ("2014/08/09 10:11:12", ("", ""), "2014-08-09T10:11:12"),
        ("2014.8.9  7:11:12.25", ("", ""), "2014-08-09T07:11:12"),
        ("2014-08-09T10:11:12+02:00", ("", ""), "2014-08-09T10:11:12"),
        ("2013:09:10     :  :  ", ("", ""), "2013-09-10"),
        ("2013:09:10\0\0", ("", ""), "2013-09-10"),
        ("2014:08:09 10:11:12 PM", ("", ""), "2014-08-09T22:11:12"),
        ("2014:8:9 1:2:3", ("", ""), "2014-08-09T01:02:03"),
        ("20140809101112", ("", ""), "2014-08-09T10:11:12"),
        ("2014:08:09:10:11:12 UTC", ("", ""), "2014-08-09T10:11:12"),
        ("2014:12", ("", ""), None),
    ],
)
def test_the_first_date_that_is_possible_counts(
    original: str, others: tuple[str, str], taken: str | None, tmp_path: Path
) -> None:
    camera: dict[int, Any] = {BASE.DateTimeOriginal: original, BASE.DateTimeDigitized: others[0]}
    found = saved(tmp_path / "a.jpg", exif=exif_of({BASE.DateTime: others[1]}, camera, {}))
    assert found == ({"taken": taken} if taken else {})


@pytest.mark.parametrize(
    ("latitude", "longitude", "found"),
    [
        (((22.0, 57.0, 6.84), "s"), ((43.0, 12.0, 37.8), "w"), (-22.9519, -43.2105)),
        (((22.0, 57.0, 6.84), "South"), ((43.0, 12.0, 37.8), "E\0"), (-22.9519, 43.2105)),
        (((95.0, 0.0, 0.0), "N"), ((10.0, 0.0, 0.0), "E"), None),
        (((45.0, 0.0, 0.0), "N"), ((200.0, 0.0, 0.0), "W"), None),
        (((89.0, 99.0, 0.0), "N"), ((1.0, 0.0, 0.0), "E"), None),
    ],
)
def test_positions(latitude: Any, longitude: Any, found: Any, tmp_path: Path) -> None:
    gps: dict[int, Any] = {GPS.GPSLatitude: latitude[0], GPS.GPSLatitudeRef: latitude[1]}
    gps |= {GPS.GPSLongitude: longitude[0], GPS.GPSLongitudeRef: longitude[1]}
    wanted = {} if found is None else {"latitude": found[0], "longitude": found[1]}
    assert saved(tmp_path / "a.jpg", exif=exif_of({}, {}, gps)) == pytest.approx(wanted)


@pytest.mark.parametrize("encoding", ["utf-8", "cp1252", "latin-1"])
@pytest.mark.parametrize("text", ["Müller", "Café in Zürich", "½ façade"])
def test_texts_read_as_they_were_written(encoding: str, text: str, tmp_path: Path) -> None:
    exif = exif_of({BASE.Make: text.encode(encoding)}, {}, {})
    assert saved(tmp_path / "a.jpg", exif=exif)["make"] == text
    path, tagged = tmp_path / "a.jpg", tmp_path / "b.jpg"
    fields = {(2, 25): text, (2, 120): f"{text} 2", (2, 55): "20160708", (2, 60): "101112+0200"}
    records = b"".join(
        struct.pack(">BBBH", 0x1C, *key, len(value.encode(encoding))) + value.encode(encoding)
        for key, value in fields.items()
    )
    block = b"8BIM\x04\x04\0\0" + struct.pack(">I", len(records)) + records
    marker = b"Photoshop 3.0\0" + block + b"\0" * (len(records) % 2)
    segment = b"\xff\xed" + struct.pack(">H", len(marker) + 2) + marker
    Image.new("RGB", (20, 30)).save(path)
    tagged.write_bytes(path.read_bytes()[:2] + segment + path.read_bytes()[2:])
    found = photo_metadata(tagged)
    assert found["tags"] == [text] and found["description"] == f"{text} 2"
    assert found["taken"] == "2016-07-08T10:11:12"


@pytest.mark.parametrize(
    ("written", "text"), [("xéé", "xé"), ("日本語", "日本"), ("\ufeffMüller ", "Müller")]
)
def test_a_text_is_cut_or_marked(written: str, text: str, tmp_path: Path) -> None:
    """Fields of a fixed length end within a character."""
    exif = exif_of({BASE.Make: written.encode()[:-1]}, {}, {})
    assert saved(tmp_path / "a.jpg", exif=exif)["make"] == text


XMP = """<?xpacket begin="" id="W5M0MpCehiHzreSzNTczkc9d"?><!-- a comment -->
<x:xmpmeta xmlns:x="adobe:ns:meta/">
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">
<rdf:Description xmlns:xmp="http://ns.adobe.com/xap/1.0/" xmlns:dc="http://purl.org/dc/elements/1.1/"
 xmlns:exif="http://ns.adobe.com/exif/1.0/" xmlns:photoshop="http://ns.adobe.com/photoshop/1.0/"
 {attributes}>{elements}</rdf:Description></rdf:RDF></x:xmpmeta>"""
DESCRIPTION = """<dc:description><rdf:Alt><rdf:li xml:lang="de">Hafen</rdf:li>
<rdf:li xml:lang="x-default">Harbour</rdf:li></rdf:Alt></dc:description>"""


@pytest.mark.parametrize(
    ("attributes", "elements", "wanted"),
    [
        ("", DESCRIPTION, {"description": "Harbour"}),
        ('xmp:Rating="five" xmp:CreateDate="2016-06-07T08:09"', "", {"taken": "2016-06-07T08:09"}),
        (
            'exif:DateTimeOriginal="" photoshop:DateCreated="2017-08-09"',
            "<exif:GPSLatitude>43,17.8S</exif:GPSLatitude><exif:GPSLongitude>5,22,12w"
            "</exif:GPSLongitude>",
            {"taken": "2017-08-09", "latitude": -43.2966667, "longitude": -5.37},
        ),
        (
            'exif:GPSLatitude="43.5" exif:GPSLongitude="x"',
            "<xmp:Rating>4</xmp:Rating>",
            {"rating": 4},
        ),
        ('exif:GPSLatitude="-43.5" exif:GPSLongitude="5"', "", {"latitude": -43.5, "longitude": 5}),
        (
            'exif:GPSLatitude="43 deg 17\' 48.0&quot; N" exif:GPSLongitude="W5, 22, 12"',
            "",
            {"latitude": 43.2966667, "longitude": -5.37},
        ),
    ],
)
def test_xmp_in_a_photo_and_beside_it(
    attributes: str, elements: str, wanted: dict[str, Any], tmp_path: Path
) -> None:
    packet = XMP.format(attributes=attributes, elements=elements).encode()
    assert saved(tmp_path / "in.jpg", xmp=packet) == wanted
    for name in ("a.jpg.xmp", "a.xmp"):
        (tmp_path / name).write_bytes(packet)
        assert saved(tmp_path / "a.jpg") == wanted
        (tmp_path / name).unlink()


@pytest.mark.parametrize(
    "spoilt",
    [
        lambda text: text.encode("utf-16"),
        lambda text: text.encode("utf-16-be"),
        lambda text: text.encode("cp1252"),
        lambda text: text.replace("Hä", "H\x0b&#0;&#x1F;ä").encode(),
        lambda text: (text + '<?xpacket end="w"?>\0\0 junk').encode(),
        lambda text: text[: text.index("</rdf:RDF")].encode(),
    ],
)
def test_damage_of_xmp_costs_nothing_before_it(spoilt: Any, tmp_path: Path) -> None:
    text = XMP.format(attributes='xmp:Rating="3"', elements=DESCRIPTION)
    packet = spoilt(text.replace("Harbour", "Häfen & sea&nbsp;"))
    wanted = {"rating": 3, "description": "Häfen & sea&nbsp;"}
    assert saved(tmp_path / "in.jpg", xmp=packet) == wanted
    for name in ("a.XMP", "a.jpg.XMP"):
        (tmp_path / name).write_bytes(packet)
        assert saved(tmp_path / "a.jpg") == wanted
        (tmp_path / name).unlink()


@pytest.mark.parametrize("value", [None, [], {}, 5, "x"])
def test_a_value_of_takeout_that_cannot_be_read_costs_no_other(value: Any, tmp_path: Path) -> None:
    place = {"latitude": 52.5163, "longitude": 13.3777}
    said = {"description": "d", "photoTakenTime": value, "geoData": value, "geoDataExif": place}
    (tmp_path / "a.jpg.json").write_text(json.dumps(said))
    assert saved(tmp_path / "a.jpg") == {"description": "d", **place}


def test_a_file_beside_a_photo_says_it_last_but_takeout_first(tmp_path: Path) -> None:
    exif = exif_of({BASE.ImageDescription: "plain"}, {BASE.DateTimeOriginal: "2020:01:02"}, {})
    packet = XMP.format(attributes='xmp:Rating="3"', elements=DESCRIPTION).encode()
    said = {"description": "t", "photoTakenTime": {"timestamp": "1433678400"}}
    (tmp_path / "a.jpg.json").write_text(json.dumps(said))
    assert saved(tmp_path / "a.jpg")["taken"] == "2015-06-07T12:00:00"
    assert saved(tmp_path / "a.jpg", exif=exif) == {"description": "plain", "taken": "2020-01-02"}
    (tmp_path / "a.xmp").write_bytes(packet)
    assert saved(tmp_path / "a.jpg", exif=exif)["description"] == "Harbour"
    for content in (b"[]", b"{", b'{"description": 5, "geoData": []}', b"\xff"):
        (tmp_path / "a.jpg.json").write_bytes(content)
        (tmp_path / "a.xmp").write_bytes(content)
        assert saved(tmp_path / "a.jpg", exif=exif)["description"] == "plain"
    (tmp_path / "a.xmp").unlink()
    (tmp_path / "a.xmp").mkdir()
    assert saved(tmp_path / "a.jpg", exif=exif)["description"] == "plain"


LONG = "a photo with a very long name from a phone"


@pytest.mark.parametrize(
    ("photo", "beside"),
    [
        ("a.jpg", "a.jpg.json"),
        ("a.jpg", "a.jpg.supplemental-metadata.json"),
        (f"{LONG}.jpg", f"{LONG}.jpg.json"),
        (
            "a photo from a phone.jpg",
            "a photo from a phone.jpg.supplemental-metadata"[:46] + ".json",
        ),
        ("a(2).jpg", "a.jpg(2).json"),
        ("a(2).jpg", "a.jpg.supplemental-metadata(2).json"),
        ("a-edited.jpg", "a.jpg.json"),
    ],
)
def test_names_of_takeout(photo: str, beside: str, tmp_path: Path) -> None:
    place = {"latitude": 52.5163, "longitude": 13.3777}
    (tmp_path / beside).write_text(json.dumps({"description": "d", "geoData": place}))
    assert saved(tmp_path / photo) == {"description": "d", **place}


def test_photos_that_were_once_read_wrongly() -> None:
    cases = DATA / "cases"
    if not (cases / "expected.json").is_file():
        missing(f"real photos: {cases} is absent")
    for name, wanted in json.loads((cases / "expected.json").read_text()).items():
        photo = load_photo(cases / name)
        found = {"width": photo.width, "height": photo.height, **photo_metadata(cases / name)}
        for field, value in wanted.items():
            got = found.get(field)
            if field == "taken" and value:
                got = got and got[: len(value)]
            assert got == (pytest.approx(value, abs=1e-4) if isinstance(value, float) else value), (
                name
            )
