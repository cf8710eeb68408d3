"""A corpus of rendered scenes in a folder: written in parallel, resumable and reproducible."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from sparta.errors import InputError
from sparta.progress import Progress, no_progress
from tests.scenes.captions import SceneObject, SceneRecord, compose_queries
from tests.scenes.draw import Scene, render_scene

BLOCK = 200  # scenes per unit of work, and the most that an interrupted worker loses
QUALITY = 90  # of the JPEG files, unless another is asked for
SETTINGS_FILE = "settings.json"
STAGE = "draw"  # of the progress
VERSION = 1  # increase it when the same seed gives other scenes or captions

Splits = tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class CorpusSettings:
    """What determines a corpus: with equal settings, corpora are equal byte by byte.

    Attributes:
        count: number of scenes.
        seed: of the renderer.
        splits: (name, share) in the order of the scenes; the shares sum to 1.
        quality: of the JPEG files.
        version: of the renderer.
    """

    count: int
    seed: int
    splits: Splits
    quality: int = QUALITY
    version: int = VERSION

    def split(self, index: int) -> str:
        """Name of the split of scene `index`."""
        bound = 0.0
        for name, share in self.splits:
            bound += share * self.count
            if index < round(bound):
                return name
        return self.splits[-1][0]


def parse_splits(text: str) -> Splits:
    """Parse "train" or "train=0.9,val=0.1".

    Raises:
        InputError: if a share is not a number, or the shares do not sum to 1.
    """
    pairs = [part.strip().partition("=") for part in text.split(",")]
    try:
        splits = tuple((name, float(share) if mark else 1.0) for name, mark, share in pairs)
    except ValueError:
        splits = ()
    if (
        not splits
        or abs(sum(share for _, share in splits) - 1) > 1e-6
        or not all(name and share > 0 for name, share in splits)
    ):
        raise InputError(
            f"--split {text!r}: expected one name, or names with shares that sum to 1,"
            " such as train=0.9,val=0.1"
        )
    return splits


def write_scenes(
    out: str | Path,
    count: int,
    seed: int,
    split: str = "train",
    workers: int = 1,
    progress: Progress = no_progress,
    quality: int = QUALITY,
) -> bool:
    """Write `images/`, `captions.jsonl` and `scenes.jsonl`; continues an interrupted run.

    Args:
        out: the folder, created if missing.
        count: number of scenes.
        seed: of the scenes.
        split: one name, or names with shares: "train=0.9,val=0.1".
        workers: number of processes; the result does not depend on it.
        progress: stage "draw", in scenes.
        quality: of the JPEG files, 1 to 95.

    Returns:
        False if the folder already contains the finished corpus, which is then left unchanged.

    Raises:
        InputError: if the folder contains something else, or a number is out of range.
    """
    out = Path(out)
    if count < 1 or workers < 1 or seed < 0:
        raise InputError(
            f"scenes: count and workers must be at least 1 and the seed at least 0;"
            f" found count {count}, workers {workers}, seed {seed}"
        )
    settings = CorpusSettings(count, seed, parse_splits(split), quality)
    _claim(out, settings)
    if (out / "captions.jsonl").is_file():
        progress(STAGE, count, count)
        return False
    for folder in ("images", "parts"):
        (out / folder).mkdir(exist_ok=True)
    starts = [s for s in range(0, count, BLOCK) if not _part(out, s).is_file()]
    done = count - sum(min(BLOCK, count - s) for s in starts)
    progress(STAGE, done, count)
    for written in _write_blocks(partial(_write_block, out, settings), starts, workers):
        done += written
        progress(STAGE, done, count)
    _join(out, settings)
    return True


def _claim(out: Path, settings: CorpusSettings) -> None:
    """Write the settings into an empty folder, or check that it already has the same."""
    mark = out / SETTINGS_FILE
    wanted = json.dumps(asdict(settings)) + "\n"
    if mark.is_file():
        found = mark.read_text(encoding="utf-8")
        if found != wanted:
            raise InputError(
                f"{out} contains other scenes: expected {wanted.strip()}, found {found.strip()};"
                " choose another folder or delete this one"
            )
        return
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"{out} is neither an empty folder nor one of scenes: choose another one")
    out.mkdir(parents=True, exist_ok=True)
    _write_whole(mark, wanted)


def _part(out: Path, start: int) -> Path:
    return out / "parts" / f"{start:06d}.json"


def _write_blocks(write: Callable[[int], int], starts: list[int], workers: int) -> Iterator[int]:
    """Run the blocks in one or several processes; yields the number of scenes of each."""
    if workers == 1 or len(starts) < 2:
        yield from map(write, starts)
        return
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"))
    # The workers inherit the mask, so that Ctrl+C interrupts only this process, which stops them.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        futures = [pool.submit(write, start) for start in starts]
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for future in as_completed(futures):
            yield future.result()
    finally:  # an interrupted run stops after the blocks in progress
        pool.shutdown(cancel_futures=True)


def _write_block(out: Path, settings: CorpusSettings, start: int) -> int:
    """Render the scenes of one block; its part file, written last, marks it as complete."""
    indices = range(start, min(start + BLOCK, settings.count))
    captions, records = [], []
    for index in indices:
        scene = render_scene(settings.seed, index)
        image = {"image": f"{index:06d}.jpg", "split": settings.split(index)}
        scene.image.save(out / "images" / image["image"], quality=settings.quality)
        captions.append(json.dumps({**image, "captions": scene.texts}))
        records.append(json.dumps({**image, **_scene_record(scene)}))
    _write_whole(_part(out, start), json.dumps({"captions": captions, "scenes": records}))
    return len(indices)


def _scene_record(scene: Scene) -> dict[str, Any]:
    """The scene's line of `scenes.jsonl`."""
    record = scene.record
    objects = [asdict(item) for item in record.objects]
    for item in objects:
        item["box"] = [round(v, 4) for v in item["box"]]
    return {
        "background": record.background,
        "light": record.light,
        "weather": record.weather,
        "count": len(objects),
        "objects": objects,
    }


def _join(out: Path, settings: CorpusSettings) -> None:
    """Join the parts; `captions.jsonl`, written last, marks the corpus as complete."""
    parts = [json.loads(_part(out, s).read_text("utf-8")) for s in range(0, settings.count, BLOCK)]
    for name in ("scenes", "captions"):
        lines = [line for part in parts for line in part[name]]
        _write_whole(out / f"{name}.jsonl", "\n".join(lines) + "\n")
    shutil.rmtree(out / "parts")


def _write_whole(path: Path, text: str) -> None:
    """Write a file that is either missing or complete."""
    fresh = path.with_suffix(".tmp")
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(path)


def write_queries(corpus: Path, count: int, seed: int) -> int:
    """Write `queries.jsonl` into the folder of a corpus; returns the number of queries."""
    lines = (corpus / "scenes.jsonl").read_text(encoding="utf-8").splitlines()
    scenes = [json.loads(line) for line in lines]
    queries = compose_queries({scene["image"]: _record(scene) for scene in scenes}, count, seed)
    text = "".join(json.dumps(asdict(query)) + "\n" for query in queries)
    (corpus / "queries.jsonl").write_text(text, encoding="utf-8")
    return len(queries)


def _record(scene: dict[str, Any]) -> SceneRecord:
    """A line of `scenes.jsonl` as the record it was written from."""
    objects = tuple(SceneObject(**{**item, "box": tuple(item["box"])}) for item in scene["objects"])
    return SceneRecord(scene["background"], scene["light"], scene["weather"], objects)
