"""Image files decoded, and what they say: EXIF, XMP and IPTC."""

import struct
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import ExifTags, Image, ImageOps, UnidentifiedImageError
from PIL.TiffImagePlugin import IFDRational

from sparta.extract import image_files
from sparta.extract.image_files import UprightPhoto, load_photo, small_picture
from sparta.extract.photo_metadata import photo_metadata
from tests.needs import linux
from tests.sparta.extract.test_photos import write_heic


def ramp(width: int, height: int) -> Image.Image:
    """Red grows to the right, green downwards."""
    x, y = np.meshgrid(np.linspace(0, 255, width), np.linspace(0, 255, height))
    return Image.fromarray(np.stack([x, y, 0 * x], axis=2).astype(np.uint8))


def test_a_jpeg_is_decoded_at_a_fraction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large one at a fraction even where all of it is asked for."""
    ramp(1203, 1201).save(tmp_path / "a.jpg")
    whole, half, quarter = (1203, 1201), (602, 601), (301, 301)
    sizes = [(0, whole), (500, whole), (300, half), (76, quarter)]
    for large, side, size in [*((image_files.LARGE, *one) for one in sizes), (200_000, 0, quarter)]:
        monkeypatch.setattr(image_files, "LARGE", large)
        photo = load_photo(tmp_path / "a.jpg", side)
        assert (photo.width, photo.height) == (1203, 1201)
        assert photo.image.size == size
    assert photo.extent == (0, 0, 1203 / 4, 1201 / 4)
    assert photo.part((0, 0.5, 0.5, 1)) == (0, 1201 / 8, 1203 / 8, 1201 / 4)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_padding_of_a_reduced_jpeg_is_cut(tmp_path: Path, orientation: int) -> None:
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = orientation
    ramp(133, 131).save(tmp_path / "a.jpg", exif=exif, quality=95, subsampling=0)
    whole, reduced = load_photo(tmp_path / "a.jpg"), load_photo(tmp_path / "a.jpg", side=8)
    assert sorted(reduced.image.size) == [17, 17]
    assert (reduced.width, reduced.height) == (whole.width, whole.height)
    assert whole.extent == (0, 0, whole.width, whole.height)
    shown = [
        np.asarray(photo.image.resize((8, 8), Image.Resampling.BILINEAR, photo.part((0, 0, 1, 1))))
        for photo in (whole, reduced)
    ]
    np.testing.assert_allclose(shown[0], shown[1].astype(float), atol=4)


def test_heic_photos_are_not_read_from_their_thumbnail(tmp_path: Path) -> None:
    write_heic(tmp_path / "a.heic", ramp(400, 240), thumbnails=[100])
    assert load_photo(tmp_path / "a.heic", side=16).image.size == (400, 240)


TIFF_ONLY = ("PA", "I")


def seen(image: Image.Image) -> list[int]:
    """As all pixels were converted before they were in strips."""
    if image.mode.startswith("I"):
        image = Image.fromarray((np.asarray(image).clip(0, 65535) // 257).astype(np.uint8))
    elif image.has_transparency_data:
        above = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", above.size, "white"), above)
    pixels: list[int] = np.asarray(image.convert("RGB")).tolist()
    return pixels


@pytest.mark.parametrize("mode", ["RGBA", "LA", "PA", "P", "RGB", "L", "I;16", "I", "1", "CMYK"])
@pytest.mark.parametrize("orientation", [1, 6])
def test_pixels_are_the_same_however_they_are_converted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, orientation: int
) -> None:
    monkeypatch.setattr(image_files, "STRIP", 100)  # two rows, and one at the end
    rng = np.random.default_rng(3)
    options: dict[str, Any] = {}
    image = Image.fromarray(rng.integers(0, 256, (31, 43, 4), np.uint8), "RGBA")
    if mode.startswith("I"):
        image = Image.fromarray(rng.integers(0, 65536, (31, 43), np.uint16)).convert(mode)
    elif mode in ("P", "RGB", "L"):
        image = image.convert("RGB").convert(mode)
        options["transparency"] = {"P": 3, "RGB": image.getpixel((4, 5)), "L": 7}[mode]
    elif mode != "RGBA":
        image = image.convert("RGB" if mode in ("1", "CMYK") else "LA").convert(mode)
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = orientation
    path = tmp_path / ("a.jpg" if mode == "CMYK" else "a.tif" if mode in TIFF_ONLY else "a.png")
    if mode not in TIFF_ONLY:
        options["exif"] = exif
    image.save(path, **options)
    with Image.open(path) as again:
        right = seen(ImageOps.exif_transpose(again))
    assert np.asarray(load_photo(path).image).tolist() == right


def test_a_jpeg_in_several_scans_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its header says so: the first scan has one of the three colours."""
    monkeypatch.setattr(image_files, "LARGE", 2000)
    saved = BytesIO()
    ramp(50, 50).save(saved, "JPEG")
    content = saved.getvalue()
    scan = content.index(b"\xff\xda\x00\x0c\x03")
    several = content[: scan + 4] + b"\1" + content[scan + 5 :]
    for file, large in ((content, False), (several, True)):
        with image_files.open_image(BytesIO(file)) as image:
            assert image_files.is_large(image) is large


PEAK = """
import sys
from pathlib import Path
from sparta.extract.image_files import load_photo, small_picture
def peak():
    line = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
    return int(line.split()[1]) // 1024
before = peak()
photo = load_photo(Path(sys.argv[1]), 256)
assert (photo.width, photo.height) == (16000, 12500)
assert small_picture(Path(sys.argv[1]), 256).size == (256, 200)
print(peak() - before)
"""


@linux
def test_a_photo_of_200_megapixels_takes_little_memory(tmp_path: Path) -> None:
    Image.new("L", (16000, 12500), 90).save(tmp_path / "a.jpg")
    command = [sys.executable, "-c", PEAK, str(tmp_path / "a.jpg")]
    assert int(subprocess.run(command, check=True, capture_output=True).stdout) < 100  # MB


@pytest.mark.parametrize(
    ("form", "options", "together"),
    [("PNG", {}, 1), ("JPEG", {"progressive": True}, 1), ("JPEG", {}, 4)],
)
def test_one_large_photo_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, options: Any, together: int
) -> None:
    """A JPEG in several scans is large in memory, as anything else than a JPEG."""
    decoding, most, upright = 0, 0, image_files._upright

    def slow(image: Image.Image, side: int) -> UprightPhoto:
        nonlocal decoding, most
        decoding += 1
        most = max(most, decoding)
        time.sleep(0.02)
        decoding -= 1
        return upright(image, side)

    monkeypatch.setattr(image_files, "_upright", slow)
    monkeypatch.setattr(image_files, "LARGE", 2000)
    ramp(50, 50).save(tmp_path / "a", form, **options)
    with ThreadPoolExecutor(4) as pool:
        pictures = list(pool.map(lambda _: small_picture(tmp_path / "a", 20), range(8)))
    assert most == together and {picture.size for picture in pictures} == {(20, 20)}


@pytest.mark.parametrize("form", ["EPS", "ICO", "PCX", "TGA", "SGI"])
def test_other_formats_are_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    def ghostscript(*_: object, **__: object) -> None:
        pytest.fail("Ghostscript was called")

    monkeypatch.setattr("PIL.EpsImagePlugin.Ghostscript", ghostscript)
    ramp(40, 40).save(tmp_path / "a.jpg", form)
    with pytest.raises(UnidentifiedImageError):
        load_photo(tmp_path / "a.jpg")


@pytest.mark.parametrize(
    "form", ["JPEG", "PNG", "WEBP", "AVIF", "GIF", "BMP", "TIFF", "JPEG2000", "PPM"]
)
def test_documented_formats_are_decoded_under_any_name(tmp_path: Path, form: str) -> None:
    ramp(40, 30).save(tmp_path / "a.heic", form)
    assert load_photo(tmp_path / "a.heic").image.size == (40, 30)


def ftyp(main: bytes, *others: bytes) -> bytes:
    brands = main + bytes(4) + b"".join(others)
    return (8 + len(brands)).to_bytes(4, "big") + b"ftyp" + brands + b"heicavif"


@pytest.mark.parametrize(
    ("head", "heic"),
    [
        (ftyp(b"heic", b"mif1"), True),
        (ftyp(b"mif1", b"mif1", b"heic"), True),
        (ftyp(b"mif1"), True),
        (ftyp(b"mif1", b"avif"), False),
        (ftyp(b"avif", b"mif1", b"heic"), False),
        (ftyp(b"isom"), False),
        (b"\xff\xd8", False),
    ],
)
def test_heic_is_recognised_by_its_brands(head: bytes, heic: bool) -> None:
    assert image_files.is_heic(head) == heic


# ---- EXIF, XMP and IPTC --------------------------------------------------------------------------

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


BASE = ExifTags.Base
NOTHING: dict[int, Any] = {BASE.FNumber: IFDRational(0, 0), BASE.LensModel: "  "}
NOTHING[BASE.DateTimeOriginal] = "0000:00:00 00:00:00"
# The digitising time takes the place of one that is missing.
DIGITISED = {BASE.DateTimeDigitized: "2024:06:01 18:30:05", BASE.ISOSpeedRatings: (200, 0)}


@pytest.mark.parametrize(
    ("camera", "gps", "wanted"),
    [
        ({}, {2: (0.0, 0.0, 0.0), 1: "N", 4: (0.0, 0.0, 0.0), 3: "E"}, {}),
        ({}, {2: (1.0, 2.0, 3.0), 1: "N"}, {}),
        ({}, {2: (1.0, 2.0), 1: "N", 4: (1.0, 2.0, 3.0), 3: "E"}, {}),
        ({}, {2: (IFDRational(1, 0), 0.0, 0.0), 1: "N", 4: (1.0, 2.0, 3.0), 3: "E"}, {}),
        (NOTHING, {}, {}),
        (DIGITISED, {}, {"taken": "2024-06-01T18:30:05", "iso": 200}),
    ],
)
def test_odd_exif(camera: Any, gps: Any, wanted: dict[str, Any], tmp_path: Path) -> None:
    assert saved(tmp_path / "a.jpg", exif=exif_of({}, camera, gps)) == wanted
    (tmp_path / "a.jpg").write_bytes(b"something else")
    assert photo_metadata(tmp_path / "a.jpg") == {"bytes": 14}


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
    for packet in (evil, evil.encode("utf-16"), "<x:xmpmeta"):
        content = packet.encode() if isinstance(packet, str) else packet
        assert saved(tmp_path / "a.jpg", xmp=content) == {}


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
