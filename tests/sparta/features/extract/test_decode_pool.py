import multiprocessing
import os
import signal
from dataclasses import dataclass
from pathlib import Path

import pytest
from PIL import Image

from sparta.features.extract.augmentations import Augmentation, Crop
from sparta.features.extract.decode_pool import decode_all, default_workers
from sparta.features.extract.photos import Decoder, Photo
from sparta.features.skipped import Skipped


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


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_keeps_the_order(tmp_path: Path, workers: int) -> None:
    asked = batches(tmp_path)
    decoder = Decoder(tmp_path, 8, 2, Augmentation("plain"))
    answers = list(decode_all(decoder, asked, workers))
    assert [[photo.image_id for photo in answer] for answer in answers] == asked
    reds = [int(photo.pixels[0, 0, 0]) for answer in answers for photo in answer]  # type: ignore[union-attr]
    assert reds == list(range(24))


@pytest.mark.parametrize("deadly", [0, 10, 23])
def test_a_worker_that_dies_costs_one_photo(tmp_path: Path, deadly: int) -> None:
    asked = batches(tmp_path, deadly)
    answers = list(decode_all(Fragile(tmp_path, 8, 2, Augmentation("plain")), asked, 2))
    assert [[photo.image_id for photo in answer] for answer in answers] == asked
    lost = [entry for answer in answers for entry in answer if isinstance(entry, Skipped)]
    assert lost == [Skipped("deadly.png", "decoding it killed the worker process")]


def test_a_reader_may_stop_early(tmp_path: Path) -> None:
    reading = decode_all(Decoder(tmp_path, 8, 2, Augmentation("plain")), batches(tmp_path), 2)
    assert next(reading)
    reading.close()
    assert next(reading, None) is None
    assert not multiprocessing.active_children()


def test_there_is_a_worker_for_each_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {1, 4, 5}, raising=False)
    assert default_workers() == 3
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(40))
    assert default_workers() == 16
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert default_workers() == 1
