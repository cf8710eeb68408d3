"""Photos of a folder are found, decoded and shown, or skipped with a reason."""

import contextlib
import errno
import multiprocessing
import os
import signal
import struct
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pillow_heif
import pytest
from PIL import ExifTags, Image

from sparta.addresses import UnreachableError, folder_at
from sparta.errors import InputError
from sparta.extract import image_files, photos
from sparta.extract.photos import (
    Augmentation,
    Crop,
    Decoder,
    Photo,
    decode_all,
    find_photos,
)
from sparta.features.record import Skipped
from tests.bad_paths import add_bad_paths


def write_heic(path: Path, picture: Image.Image, **options: object) -> None:
    """Write a picture as HEIC."""
    pillow_heif.from_pillow(picture).save(path, format="HEIF", quality=95, **options)


def scene(width: int = 40, height: int = 24) -> Image.Image:
    """Red on the left, blue on the right."""
    picture = Image.new("RGB", (width, height), (220, 20, 20))
    picture.paste((20, 20, 220), (width // 2, 0, width, height))
    return picture


def decoder(folder: Path, augmentation: str = "plain", side: int = 16) -> Decoder:
    return Decoder(folder, side, int(Image.Resampling.BILINEAR), Augmentation(augmentation))


def decode(folder: Path, name: str) -> Photo:
    found = decoder(folder).decode(name)
    assert isinstance(found, Photo), found
    return found


def reason(folder: Path, name: str) -> str:
    found = decoder(folder).decode(name)
    assert isinstance(found, Skipped)
    return found.reason


def assert_red_then_blue(pixels: np.ndarray) -> None:
    np.testing.assert_allclose(pixels[:, :4].mean((0, 1)), [220, 20, 20], atol=6)
    np.testing.assert_allclose(pixels[:, -4:].mean((0, 1)), [20, 20, 220], atol=6)


def huge_png(path: Path) -> None:
    """A few bytes that claim 60,000 x 60,000 pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 60000, 60000, 8, 2, 0, 0, 0))
    data = chunk(b"IDAT", zlib.compress(bytes(1000)))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + header + data + chunk(b"IEND", b""))


def test_shows_the_first_frame(tmp_path: Path) -> None:
    black = Image.new("RGB", (40, 24))
    for name in ("a.gif", "a.webp", "a.png"):
        scene().save(tmp_path / name, save_all=True, append_images=[black], duration=50)
        assert_red_then_blue(decode(tmp_path, name).pixels)


def test_reads_heic_whatever_it_is_named(tmp_path: Path) -> None:
    for name in ("a.heic", "b.HEIF", "c.hif", "d.jpg"):
        write_heic(tmp_path / name, scene())
        photo = decode(tmp_path, name)
        assert (photo.width, photo.height) == (40, 24)
        assert_red_then_blue(photo.pixels)
    assert find_photos(tmp_path) == ["a.heic", "b.HEIF", "c.hif", "d.jpg"]


def test_heic_photos_are_turned_once(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 6  # saved in the container too, as telephones do
    write_heic(
        tmp_path / "a.heic", scene().transpose(Image.Transpose.ROTATE_90), exif=exif.tobytes()
    )
    assert b"irot" in (tmp_path / "a.heic").read_bytes()
    photo = decode(tmp_path, "a.heic")
    assert (photo.width, photo.height) == (40, 24)
    assert_red_then_blue(photo.pixels)


def test_says_why_a_file_is_no_photo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scene(200, 200).save(tmp_path / "whole.jpg")
    content = (tmp_path / "whole.jpg").read_bytes()
    (tmp_path / "cut.jpg").write_bytes(content[: len(content) // 2])
    (tmp_path / "text.jpg").write_text("no photo at all")
    (tmp_path / "empty.jpg").touch()
    huge_png(tmp_path / "huge.png")
    Image.new("RGB", (1, 1)).save(tmp_path / "dot.png")
    Image.new("F", (20, 20)).save(tmp_path / "float.tif")
    assert "truncated" in reason(tmp_path, "cut.jpg")
    assert reason(tmp_path, "text.jpg") == "not an image, or of an unknown format"
    assert reason(tmp_path, "empty.jpg") == "the file is empty"
    assert "3600000000 pixels" in reason(tmp_path, "huge.png")
    assert reason(tmp_path, "dot.png") == "1x1 pixels; both sides must be 8 or more"
    assert "floating-point" in reason(tmp_path, "float.tif")

    def refuse(path: Path, **_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Image, "open", refuse)
    assert reason(tmp_path, "whole.jpg") == "Permission denied"


def test_finds_photos_at_any_depth_in_order(tmp_path: Path) -> None:
    for name in ("b.JPG", "a/z.png", "a.tif/x.jpeg", "a/notes.txt", "B.gif"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert find_photos(tmp_path) == ["B.gif", "a.tif/x.jpeg", "a/z.png", "b.JPG"]


KEPT = ("a.jpg", "trips/b.jpg", "raw/c.png", "@home/d.jpg")
LEFT_OUT = [
    *(".hidden.jpg", ".cache/e.jpg", "._f.jpg", "trips/@eaDir/b.jpg/thumb.jpg", "#recycle/g.jpg"),
    *(".Trashes/501/h.jpg", ".Trash-1000/files/i.jpg", ".thumbnails/j.jpg"),
    *("__MACOSX/trips/k.jpg", "covers/l.jpg", "covers/in/m.jpg", "$RECYCLE.BIN/n.jpg"),
    *("@Recently-Snapshot/n.jpg", "System Volume Information/n.jpg"),
]
OTHERS = ("o.cr2", "p.NEF", "q.jxl", ".r.jxl", "covers/s.arw", "notes.txt")


@pytest.mark.parametrize(
    ("include", "exclude", "more", "less"),
    [
        ([], [], [], []),
        (["*"], [], LEFT_OUT, []),
        (["#recycle", ".hidden.jpg"], [], ["#recycle/g.jpg", ".hidden.jpg"], []),
        (["covers/in", "**/h.jpg"], [], ["covers/in/m.jpg", ".Trashes/501/h.jpg"], []),
        ([], ["raw", "trips/*"], [], ["raw/c.png", "trips/b.jpg"]),
        (["covers"], ["m.jpg", "*.png"], ["covers/l.jpg"], ["raw/c.png"]),
    ],
)
def test_photos_that_are_left_out(
    tmp_path: Path, include: list[str], exclude: list[str], more: list[str], less: list[str]
) -> None:
    for name in (*KEPT, *LEFT_OUT, *OTHERS, ".nomedia", "covers/.nomedia"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    lines: list[str] = []
    chosen = photos.Choice(include, exclude)
    wanted = sorted({*KEPT, *more} - {*less})
    assert find_photos(tmp_path, chosen, lines.append) == wanted
    if not include:
        counts = "passed over 1 JPEG XL, 2 RAW, which cannot be read: export them as JPEG"
        assert lines == [f"{tmp_path}: {counts}"]


def test_nothing_to_find_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.txt").touch()
    with pytest.raises(InputError, match="holds no photo"):
        find_photos(tmp_path)
    with pytest.raises(InputError, match="is not a folder"):
        find_photos(tmp_path / "a.txt")


def test_crops_depend_on_seed_and_id_alone() -> None:
    crops = [Augmentation("crop:1").of(f"{i}.jpg") for i in range(500)]
    assert crops == [Augmentation("crop:1").of(f"{i}.jpg") for i in range(500)]
    assert crops != [Augmentation("crop:2").of(f"{i}.jpg") for i in range(500)]
    boxes = np.array([box for box, _ in crops])
    assert boxes.min() >= 0
    assert boxes.max() <= 1
    sides = boxes[:, 2:] - boxes[:, :2]
    assert sides.prod(axis=1).min() >= 0.5
    shapes = sides[:, 0] / sides[:, 1]
    assert shapes.min() >= 3 / 4 - 1e-9
    assert shapes.max() <= 4 / 3 + 1e-9
    assert 200 < sum(mirrored for _, mirrored in crops) < 300
    for name in ("", "mirror", "crop:x", "crop:-1", "flip:1"):
        with pytest.raises(InputError, match="expected plain, flip or crop:SEED"):
            Augmentation(name)


def test_a_crop_shows_that_part(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    picture = Image.fromarray(rng.integers(0, 255, (64, 96, 3), np.uint8))
    picture.save(tmp_path / "a.png")
    (x1, y1, x2, y2), mirrored = Augmentation("crop:5").of("a.png")
    box = (x1 * 96, y1 * 64, x2 * 96, y2 * 64)
    expected = np.asarray(picture.resize((16, 16), Image.Resampling.BILINEAR, box))
    found = decoder(tmp_path, "crop:5").decode("a.png")
    assert isinstance(found, Photo)
    np.testing.assert_array_equal(found.pixels, expected[:, ::-1] if mirrored else expected)


def test_photos_on_another_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = folder_at("memory://found")
    with pytest.raises(InputError, match="memory://found is not a folder"):
        find_photos(folder)
    (tmp_path / "b").mkdir()
    scene().save(tmp_path / "b" / "c.png")
    write_heic(tmp_path / "a.heic", scene())
    for name in ("b/c.png", "a.heic"):
        (folder / name).write_bytes((tmp_path / name).read_bytes())
    (folder / "b" / "notes.txt").write_text("no photo")
    (folder / "empty.jpg").touch()
    assert find_photos(folder) == ["a.heic", "b/c.png", "empty.jpg"]
    for name in ("a.heic", "b/c.png"):
        assert (decode(folder, name).pixels == decode(tmp_path, name).pixels).all()
    assert reason(folder, "empty.jpg") == "the file is empty"
    assert "gone.jpg" in reason(folder, "gone.jpg")

    def fail(*_: object) -> None:
        raise ConnectionResetError

    monkeypatch.setattr(type(folder), "read_bytes", fail)
    with pytest.raises(UnreachableError, match=r"memory://found/b/c\.png cannot be read"):
        decoder(folder).decode("b/c.png")


def test_every_path_that_cannot_be_read_has_a_reason(tmp_path: Path) -> None:
    scene().save(tmp_path / "good.png")
    (tmp_path / "below.jpg").mkdir()
    scene().save(tmp_path / "below.jpg" / "last.png")
    reasons = add_bad_paths(tmp_path)
    found = decoder(tmp_path)(find_photos(tmp_path))
    good = [one.image_id for one in found if isinstance(one, Photo)]
    assert good == ["below.jpg/last.png", "good.png"]
    bad = {one.image_id: one.reason for one in found if isinstance(one, Skipped)}
    assert bad == reasons


def test_a_folder_of_any_depth_is_walked(tmp_path: Path) -> None:
    folders = [tmp_path / "/".join("d" * depth) for depth in range(1, 1201)]
    for folder in folders:
        folder.mkdir()
    photo = folders[-1] / "a.png"
    photo.touch()
    try:
        assert find_photos(tmp_path) == [photo.relative_to(tmp_path).as_posix()]
    finally:  # Python's own ways to remove a tree are not for so deep a one
        photo.unlink()
        for folder in reversed(folders):
            folder.rmdir()


def test_a_folder_whose_listing_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "a.png").touch()
    (tmp_path / "disk" / "b.png").touch()
    scandir = os.scandir

    class Failing(contextlib.ExitStack):
        def __init__(self, path: Path) -> None:
            super().__init__()
            self.entries = self.enter_context(scandir(path))

        def __iter__(self) -> Iterator[os.DirEntry[str]]:
            yield from self.entries
            raise OSError(errno.EIO, "Input/output error")

    def failing(path: Path) -> object:
        return Failing(path) if Path(path).name == "disk" else scandir(path)

    monkeypatch.setattr(os, "scandir", failing)
    assert find_photos(tmp_path) == ["a.png", "disk", "disk/b.png"]


def test_a_pipe_in_the_place_of_a_photo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.png"
    scene().save(path)
    look = image_files.readable_status

    def exchange(one: Path) -> os.stat_result:
        found = look(one)
        one.unlink()
        os.mkfifo(one)
        return found

    monkeypatch.setattr(image_files, "readable_status", exchange)
    assert reason(tmp_path, "a.png") == "not a regular file"
    path.unlink()
    assert reason(tmp_path, "a.png") == "No such file or directory"


@dataclass(frozen=True)
class Fragile(Decoder):
    """Dies on one photo, as a bug in a C library would."""

    def decode(self, image_id: str, crop: Crop | None = None) -> Photo | Skipped:
        if image_id == "deadly.png":
            os.kill(os.getpid(), signal.SIGKILL)
        return super().decode(image_id, crop)


def batches(folder: Path, deadly: int | None = None) -> list[list[str]]:
    names = [f"{i:02d}.png" for i in range(24)]
    for name in names:
        Image.new("RGB", (8, 8), (int(name[:2]), 0, 0)).save(folder / name)
    if deadly is not None:
        names[deadly] = "deadly.png"
    return [names[start : start + 3] for start in range(0, len(names), 3)]


class Slow(Decoder):
    def decode(self, image_id: str, crop: Crop | None = None) -> Photo | Skipped:
        if image_id == "10.png":
            time.sleep(0.8)
        return super().decode(image_id, crop)


def test_a_photo_that_takes_long_is_named_once_while_it_is_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(photos, "SLOW", 0.1)
    asked, told = batches(tmp_path), list[str]()
    decoder = Slow(tmp_path, 8, 2, Augmentation("plain"))
    answers = list(decode_all(decoder, asked, 2, told.append))
    assert [[photo.image_id for photo in answer] for answer in answers] == asked
    assert told.count("10.png: decoding it takes longer than 0.1 s") == 1


@pytest.mark.parametrize(
    ("workers", "deadly"), [(0, None), (1, None), (3, None), (2, 0), (2, 10), (2, 23)]
)
def test_photos_come_in_order_and_a_worker_that_dies_costs_one(
    tmp_path: Path, workers: int, deadly: int | None
) -> None:
    asked = batches(tmp_path, deadly)
    answers = list(decode_all(Fragile(tmp_path, 8, 2, Augmentation("plain")), asked, workers))
    assert [[photo.image_id for photo in answer] for answer in answers] == asked
    photos = [photo for answer in answers for photo in answer]
    lost = [one for one in photos if isinstance(one, Skipped)]
    killed = Skipped("deadly.png", "decoding it killed the worker process")
    assert lost == [killed] * (deadly is not None)
    reds = [int(one.pixels[0, 0, 0]) for one in photos if isinstance(one, Photo)]
    assert reds == [number for number in range(24) if number != deadly]


def test_a_reader_may_stop_early(tmp_path: Path) -> None:
    reading = decode_all(Decoder(tmp_path, 8, 2, Augmentation("plain")), batches(tmp_path), 2)
    assert next(reading)
    reading.close()
    assert next(reading, None) is None
    assert not multiprocessing.active_children()
