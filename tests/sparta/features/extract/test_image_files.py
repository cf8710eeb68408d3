import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import ExifTags, Image, UnidentifiedImageError

from sparta.features.extract.augmentations import Augmentation
from sparta.features.extract.image_files import UprightPhoto, is_heic, load_photo
from sparta.features.extract.networks.lite.backbone import LiteBackbone
from sparta.features.extract.photos import Decoder
from sparta.features.skipped import Skipped
from tests.sparta.features.extract.heic_files import write_heic


def ramp(width: int, height: int) -> Image.Image:
    """Red grows to the right, green downwards."""
    x, y = np.meshgrid(np.linspace(0, 255, width), np.linspace(0, 255, height))
    return Image.fromarray(np.stack([x, y, 0 * x], axis=2).astype(np.uint8))


def test_a_jpeg_is_decoded_at_the_smallest_sufficient_size(tmp_path: Path) -> None:
    ramp(1203, 1201).save(tmp_path / "a.jpg")
    for side, size in ((0, (1203, 1201)), (500, (1203, 1201)), (300, (602, 601)), (76, (301, 301))):
        photo = load_photo(tmp_path / "a.jpg", side)
        assert (photo.width, photo.height) == (1203, 1201)
        assert photo.image.size == size
    assert photo.extent == (0, 0, 1203 / 4, 1201 / 4)
    assert photo.part((0, 0.5, 0.5, 1)) == (0, 1201 / 8, 1203 / 8, 1201 / 4)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_padding_of_a_reduced_jpeg_is_not_part_of_the_photo(
    tmp_path: Path, orientation: int
) -> None:
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


def enlarged(photo: Path, out: Path, seed: int) -> None:
    """A photo at about four times a network's square, with noise as of a camera."""
    large = Image.open(photo).convert("RGB").resize((1387, 1045), Image.Resampling.LANCZOS)
    noise = np.random.default_rng(seed).normal(0, 3, (1045, 1387, 1))
    Image.fromarray((np.asarray(large) + noise).clip(0, 255).astype(np.uint8)).save(out, quality=90)


def test_reduced_decoding_changes_features_less_than_rounding(shared: Path, tmp_path: Path) -> None:
    network = LiteBackbone("efficientnet-lite2", device="cpu")
    side, pixels = network.source.image_size, []
    photos = sorted((shared / "photos" / "images").glob("*.jpg"))[::1500]
    for seed, photo in enumerate(photos):
        enlarged(photo, tmp_path / "a.jpg", seed)
        whole, reduced = load_photo(tmp_path / "a.jpg"), load_photo(tmp_path / "a.jpg", side)
        assert reduced.image.size == (694, 523)
        channels = [
            np.asarray(Image.fromarray(np.asarray(part, np.float32)).resize((side, side), 3))
            for part in whole.image.split()
        ]
        exact = np.stack(channels, axis=2)
        dithered = exact + np.random.default_rng(seed).random(exact.shape)
        pixels += [exact.round(), dithered, np.asarray(_square(reduced, side))]
    square = np.stack(pixels).clip(0, 255).astype(np.uint8)
    found = network.encode(square)[0][:, :-1].astype(np.float32)
    found /= np.linalg.norm(found, axis=2, keepdims=True)
    rounding, reducing = ((found[0::3] * found[place::3]).sum(axis=2) for place in (1, 2))
    assert reducing.mean() > max(0.998, rounding.mean())
    assert reducing.min() > rounding.min()


def _square(photo: UprightPhoto, side: int) -> Image.Image:
    return photo.image.resize((side, side), Image.Resampling.BICUBIC, photo.part((0, 0, 1, 1)))


@pytest.mark.parametrize("form", ["EPS", "ICO", "PCX", "TGA", "SGI"])
def test_only_documented_formats_are_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
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
    ("head", "expected"),
    [
        (ftyp(b"heic", b"mif1"), True),
        (ftyp(b"mif1", b"mif1", b"heic"), True),
        (ftyp(b"mif1"), True),
        (ftyp(b"mif1", b"avif"), False),
        (ftyp(b"avif", b"mif1", b"heic"), False),
        (ftyp(b"isom"), False),
        (b"\xff\xd8", False),
        (b"", False),
    ],
)
def test_heic_is_told_from_avif(head: bytes, expected: bool) -> None:
    assert is_heic(head) is expected


@pytest.mark.parametrize("brand", [b"heic", b"mif1"])
def test_heic_without_its_library_is_skipped_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, brand: bytes
) -> None:
    (tmp_path / "a.heic").write_bytes(ftyp(brand, b"heic"))
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    skipped = Decoder(tmp_path, 8, 2, Augmentation("plain")).decode("a.heic")
    assert isinstance(skipped, Skipped)
    assert "pip install 'visualsparta[heic]'" in skipped.reason
