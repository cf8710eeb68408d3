"""`extract_photos`: rows, interrupted runs, changed folders."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fsspec.implementations.memory import MemoryFile  # type: ignore[import-untyped]
from PIL import Image

from sparta.addresses import folder_at
from sparta.errors import InputError
from sparta.extract import job as job
from sparta.extract.job import ExtractReport, extract_photos, work_ahead
from sparta.features.record import Skipped, read_skipped
from sparta.features.store import FeatureStore
from tests.sparta.extract.tiny_networks import noisy

KILLED = """
import multiprocessing, os, signal, sys
from pathlib import Path
from sparta.cluster import connected
from sparta.extract import job

photos, out, ray = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
after, job.SHARD_SIZE, workers = map(int, sys.argv[4:])

def die(stage, done, total):
    if done > after:
        print(*(child.pid for child in multiprocessing.active_children()), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)

with connected(ray or None) as cluster:
    options = {"image_size": 32, "workers": workers, "batch_size": 3, "cluster": cluster}
    job.extract_photos(photos, out, "pixels", progress=die, **options)
"""


def run_killed(
    photos: Path, out: Path, after: int, shard: int, workers: int, ray: str = ""
) -> list[str]:
    """A run that is killed once so many photos are done; ids of its worker processes."""
    command = [sys.executable, "-c", KILLED, str(photos), str(out), ray]
    command += [str(number) for number in (after, shard, workers)]
    done = subprocess.run(command, timeout=120, check=False, stdout=subprocess.PIPE, text=True)
    assert done.returncode == -signal.SIGKILL
    return done.stdout.split()


@pytest.fixture(autouse=True)
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "SHARD_SIZE", 8)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """30 photos, three of them no photos."""
    names = (f"{'trip/' if i % 2 else ''}{i:02d}.png" for i in range(30))
    folder = noisy(tmp_path / "photos", *names)
    for name in ("04.png", "trip/05.png", "28.png"):
        (folder / name).write_text("broken")
    return folder


def extract(photos: str | Path, out: str | Path, **options: Any) -> ExtractReport:
    """Of pixels, by default in this process."""
    return extract_photos(photos, out, "pixels", **{"image_size": 32, "workers": 0} | options)


def interrupted(photos: Path, out: Path, after: int, **options: Any) -> None:
    """A run that ends once so many photos are done."""

    def interrupt(stage: str, done: int, total: int) -> None:
        if done >= after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        extract(photos, out, progress=interrupt, **options)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_every_photo_is_a_row(photos: Path, tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    report = extract(
        str(photos),
        str(tmp_path / "out"),
        workers=2,
        batch_size=3,
        progress=lambda *step: seen.append(step),
    )
    assert (report.images, report.skipped, report.reused) == (27, 3, 0)
    assert seen[0] == ("extract", 0, 30)
    assert seen[-1] == ("extract", 30, 30)
    assert seen == sorted(seen)
    store = FeatureStore.open(str(tmp_path / "out"))
    assert len(store) == 27
    assert store.ids == sorted(store.ids)
    assert {"00.png", "trip/01.png"} < set(store.ids)
    assert store.photos == photos
    entry = store[store.index("trip/01.png")]
    assert (entry.width, entry.height) == (30, 20)
    assert entry.features.shape == (5, 768)
    corners = [[0, 0, 0.5, 0.5], [0.5, 0, 1, 0.5], [0, 0.5, 0.5, 1], [0.5, 0.5, 1, 1]]
    assert entry.boxes.tolist() == [*corners, [0, 0, 1, 1]]
    picture = Image.open(photos / "trip/01.png").resize((32, 32), Image.Resampling.BILINEAR)
    corner = np.asarray(picture, np.float32)[:16, 16:] / 127.5 - 1
    np.testing.assert_allclose(entry.features[1], corner.reshape(-1), atol=1e-3)
    lines = (tmp_path / "out" / "skipped.jsonl").read_text().splitlines()
    assert [json.loads(line)["image_id"] for line in lines] == ["04.png", "28.png", "trip/05.png"]
    assert all("not an image" in json.loads(line)["reason"] for line in lines)


@pytest.mark.parametrize("stop", [1, 9, 20, 30])
def test_a_broken_run_ends_with_the_same_bytes(photos: Path, tmp_path: Path, stop: int) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    extract(photos, whole, batch_size=3)

    interrupted(photos, broken, stop, batch_size=3)
    with pytest.raises(InputError, match="unfinished"):
        FeatureStore.open(broken)
    report = extract(photos, broken, workers=1, batch_size=3)
    assert report.reused == (stop - 1) // 8 * 8
    assert contents(broken) == contents(whole)


def test_a_killed_run_ends_with_the_same_bytes(photos: Path, tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    extract(photos, whole)
    workers = run_killed(photos, killed, after=16, shard=8, workers=2)
    assert len(workers) == 2
    report = extract(photos, killed)
    assert report.reused == 16
    assert contents(killed) == contents(whole)
    for _ in range(200):
        if not any(map(running, workers)):
            break
        time.sleep(0.1)
    assert not any(map(running, workers))


def running(pid: str) -> bool:
    try:
        return Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_finished_store_is_reused(photos: Path, tmp_path: Path) -> None:
    first = extract(photos, tmp_path / "out")
    before = contents(tmp_path / "out")
    again = extract(photos, tmp_path / "out")
    assert (again.images, again.skipped, again.reused) == (first.images, first.skipped, 30)
    assert contents(tmp_path / "out") == before
    (tmp_path / "out" / "shard-00001.arrow").unlink()
    with pytest.raises(InputError, match=r"shard-00001.arrow is missing"):
        extract(photos, tmp_path / "out")


def test_other_inputs_are_refused(photos: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    extract(photos, out)
    with pytest.raises(InputError, match=r"image_size: 48 against 32.*another --out"):
        extract(photos, out, image_size=48)
    with pytest.raises(InputError, match="augmentation: 'flip' against 'plain'"):
        extract(photos, out, augmentation="flip")
    before = contents(out)
    (tmp_path / "others").mkdir()
    Image.new("RGB", (20, 20)).save(tmp_path / "others" / "other.png")
    with pytest.raises(InputError, match=r"of other photos, none of which.*another --out"):
        extract(tmp_path / "others", out)
    assert contents(out) == before


def change(photos: Path) -> None:
    """Two photos more, one less, one replaced by another of the same size, one that is whole."""
    for name in ("00a.png", "z.png"):
        Image.new("RGB", (20, 20)).save(photos / name)
    (photos / "02.png").unlink()
    size = (photos / "08.png").stat().st_size
    Image.new("RGB", (20, 30)).save(photos / "08.png")
    content = (photos / "08.png").read_bytes()
    (photos / "08.png").write_bytes(content + bytes(size - len(content)))
    Image.new("RGB", (20, 20)).save(photos / "28.png")


def test_links_that_lead_out_of_the_folder_are_counted(tmp_path: Path) -> None:
    folder, lines = tmp_path / "photos", list[str]()
    folder.mkdir()
    (tmp_path / "alias").symlink_to(folder)
    for photo in (tmp_path / "a.png", folder / "b.png"):
        Image.new("RGB", (40, 40), "red").save(photo)
    for name, target in {
        "out.png": tmp_path / "a.png",
        "gone.png": tmp_path / "nowhere",
        "in.png": folder / "b.png",
        "relative.png": Path("b.png"),
    }.items():
        (folder / name).symlink_to(target)
    report = extract(tmp_path / "alias", tmp_path / "out", notice=lines.append)
    assert (report.images, report.skipped) == (4, 1)
    assert lines == [
        f"{tmp_path / 'alias'}: 2 of 5 photos are links that lead out of the folder; "
        "a server will not show them"
    ]


def test_keys_of_a_bucket_that_cannot_be_ids_are_skipped(tmp_path: Path) -> None:
    folder, out = folder_at("memory://keys"), tmp_path / "out"
    buffer = BytesIO()
    Image.new("RGB", (40, 40), "red").save(buffer, "PNG")
    keys = ["/keys/a.png", "/keys/b//c.png", "/keys/./d.png", "/keys/e/../f.png"]
    for key in keys:
        folder.fs.store[key] = MemoryFile(folder.fs, key, buffer.getvalue())  # type: ignore[attr-defined]
    report = extract(folder, out)
    assert report.images == 1 and FeatureStore.open(out).ids == ["a.png"]
    reasons = {one.image_id: one.reason for one in read_skipped(out)}
    assert reasons.keys() == {"b//c.png", "./d.png", "e/../f.png"}
    assert reasons["./d.png"].startswith("the id has the part '.' between slashes")


CHANGED = (
    "since features were stored 2 photos were added, 2 changed and 1 removed; features of 25 are "
    "kept"
)


def test_features_of_unchanged_photos_are_kept(photos: Path, tmp_path: Path) -> None:
    out, lines = tmp_path / "out", list[str]()
    extract(photos, out, notice=lines.append)
    (out / "mine.txt").write_text("a file of the user's")
    change(photos)
    steps: list[int] = []
    report = extract(
        photos, out, progress=lambda _, done, __: steps.append(done), notice=lines.append
    )
    assert lines == [f"{photos}: {CHANGED}"]
    # Two that cannot be read are tried again.
    assert (report.images, report.skipped, report.reused) == (29, 2, 25)
    assert (steps[0], steps[-1]) == (25, 31)
    assert FeatureStore.open(out).fingerprint == fresh(photos, tmp_path).fingerprint
    assert len((out / "skipped.jsonl").read_text().splitlines()) == 2
    shards = [f"shard-1-0000{number}.arrow" for number in range(4)]
    (stamps,) = (path.name for path in out.glob("stamps-*"))
    assert {*contents(out)} == {"mine.txt", "skipped.jsonl", "store.json", stamps, *shards}
    again = extract(photos, out, notice=lines.append)
    assert (again.reused, len(lines)) == (31, 1)


def fresh(photos: Path, tmp_path: Path) -> FeatureStore:
    extract(photos, tmp_path / "fresh")
    return FeatureStore.open(tmp_path / "fresh")


@pytest.mark.parametrize("stop", [26, 28, 31])
def test_an_interrupted_change_continues(photos: Path, tmp_path: Path, stop: int) -> None:
    out = tmp_path / "out"
    extract(photos, out)
    change(photos)

    interrupted(photos, out, stop, batch_size=1)
    lines: list[str] = []
    extract(photos, out, notice=lines.append)
    assert lines == [f"{photos}: {CHANGED}"]
    assert FeatureStore.open(out).fingerprint == fresh(photos, tmp_path).fingerprint


def test_a_change_during_a_change_keeps_what_was_extracted(photos: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"

    interrupted(photos, out, 18)  # two shards are written
    change(photos)
    lines: list[str] = []
    interrupted(photos, out, 18)
    Image.new("RGB", (40, 20)).save(photos / "z.png")
    report = extract(photos, out, notice=lines.append)
    assert report.reused == 15 and "features of 15 are kept" in lines[0]
    assert FeatureStore.open(out).fingerprint == fresh(photos, tmp_path).fingerprint
    shards = sorted(path.name for path in out.glob("*.arrow"))
    assert shards == [f"shard-2-0000{number}.arrow" for number in range(4)]


def test_stores_without_stamps(photos: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    extract(photos, out)
    header = json.loads((out / "store.json").read_text())
    for name in ("stamps", "superseded", "generation"):
        del header[name]
    (out / "store.json").write_text(json.dumps(header))
    next(out.glob("stamps-*")).unlink()
    report = extract(photos, out)
    assert report.reused == 30
    (out / "store.json").write_text(json.dumps(header))
    change(photos)
    lines: list[str] = []
    report = extract(photos, out, notice=lines.append)
    assert (report.images, report.reused) == (29, 0)
    assert "features of 0 are kept" in lines[0]


def test_a_lost_shard_is_extracted_again_after_a_change(photos: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    extract(photos, out)
    (out / "shard-00001.arrow").write_bytes(b"half")
    change(photos)
    report = extract(photos, out)
    assert report.reused == 18
    assert FeatureStore.open(out).fingerprint == fresh(photos, tmp_path).fingerprint


def test_a_folder_without_usable_photo_is_refused(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.jpg").touch()
    with pytest.raises(InputError, match=r"no photo could be used; .*skipped.jsonl says why"):
        extract(tmp_path / "photos", tmp_path / "out")
    with pytest.raises(InputError, match="--labels needs a backbone"):
        extract(tmp_path / "photos", tmp_path / "out", labels=3)


def test_a_photo_that_can_be_read_again_is_extracted(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, *_ = good = fresh(photos, tmp_path).ids
    out = tmp_path / "closed"
    with monkeypatch.context() as patch:
        patch.setattr(os, "access", lambda path, _: Path(path) != photos / first)
        extract(photos, out, workers=1)
    assert Skipped(first, "Permission denied") in read_skipped(out)
    extract(photos, out, workers=1)
    assert FeatureStore.open(out).ids == good


def test_a_folder_whose_path_is_not_utf8_is_refused(photos: Path, tmp_path: Path) -> None:
    folder = photos.rename(tmp_path / os.fsdecode(b"caf\xe9"))
    with pytest.raises(InputError, match=r"caf\\xe9: the path is not UTF-8; rename the folder"):
        extract(folder, tmp_path / "out")


# ---- work ahead of its reader -----------------------------------------------------------------


def test_results_are_in_order_and_a_few_values_ahead() -> None:
    drawn: list[int] = []

    def values() -> Iterator[int]:
        for value in range(20):
            drawn.append(value)
            yield value

    results = work_ahead(lambda value: value * value, values(), threads=3)
    assert next(results) == 0
    assert drawn == [0, 1, 2, 3]
    assert list(results) == [value * value for value in range(1, 20)]
    assert list(work_ahead(str, [])) == []


def test_two_values_are_worked_on_at_once() -> None:
    both = threading.Barrier(2, timeout=30)  # passed by two threads together or not at all
    assert sorted(work_ahead(lambda _: both.wait(), range(4))) == [0, 0, 1, 1]


def test_an_error_and_a_reader_that_stops_end_the_threads() -> None:
    before = threading.active_count()
    failing = work_ahead(lambda value: 1 // value, [2, 1, 0, 1])
    assert [next(failing), next(failing)] == [0, 1]
    with pytest.raises(ZeroDivisionError):
        next(failing)
    stopped = work_ahead(abs, range(-9, 0))
    assert next(stopped) == 9
    stopped.close()
    assert threading.active_count() == before
