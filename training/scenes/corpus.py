"""Writing a corpus of rendered scenes to a folder: parallel, resumable, reproducible."""

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
from training.scenes.render import CORPUS_VERSION, Scene, render_scene

BLOCK = 200  # scenes per unit of work: what a killed run may lose per worker
QUALITY = 90
SETTINGS = "settings.json"
Splits = tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Corpus:
    """What a folder of scenes holds; two corpora with equal settings are equal, byte for byte.

    Attributes:
        count: number of scenes.
        seed: of the renderer.
        splits: (name, share) in order of the scenes' numbers; the shares sum to one.
        version: of the renderer.
    """

    count: int
    seed: int
    splits: Splits
    version: int = CORPUS_VERSION

    def split(self, index: int) -> str:
        """Name of the split that scene `index` belongs to."""
        bound = 0.0
        for name, share in self.splits:
            bound += share * self.count
            if index < round(bound):
                return name
        return self.splits[-1][0]


def parse_splits(text: str) -> Splits:
    """Read "train" or "train=0.9,val=0.1".

    Raises:
        InputError: if a share is not a number, or the shares do not sum to one.
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
    progress: Callable[[int], None] = lambda done: None,
) -> bool:
    """Write `images/`, `captions.jsonl` and `scenes.jsonl` into a folder, or finish doing so.

    Args:
        out: the folder; made if absent.
        count: number of scenes.
        seed: of the corpus.
        split: one name, or names with shares: "train=0.9,val=0.1".
        workers: number of processes; the bytes do not depend on it.
        progress: called with the scenes finished so far; first, with those of an earlier run.

    Returns:
        False if the folder already held the finished corpus, which was then left as it is.

    Raises:
        InputError: if the folder holds something else, or a number makes no sense.
    """
    out = Path(out)
    if count < 1 or workers < 1 or seed < 0:
        raise InputError(
            f"scenes: count and workers must be at least 1 and the seed at least 0;"
            f" found count {count}, workers {workers}, seed {seed}"
        )
    corpus = Corpus(count, seed, parse_splits(split))
    _claim(out, corpus)
    if (out / "captions.jsonl").is_file():
        progress(count)
        return False
    for folder in ("images", "parts"):
        (out / folder).mkdir(exist_ok=True)
    starts = [s for s in range(0, count, BLOCK) if not _part(out, s).is_file()]
    done = count - sum(min(BLOCK, count - s) for s in starts)
    progress(done)
    for written in _write_blocks(partial(_write_block, out, corpus), starts, workers):
        done += written
        progress(done)
    _join(out, corpus)
    return True


def _claim(out: Path, corpus: Corpus) -> None:
    """Mark the folder as this corpus's, or check that it already is."""
    mark = out / SETTINGS
    wanted = json.dumps(asdict(corpus)) + "\n"
    if mark.is_file():
        found = mark.read_text(encoding="utf-8")
        if found != wanted:
            raise InputError(
                f"{out} holds other scenes: expected {wanted.strip()}, found {found.strip()};"
                " give another folder or delete this one"
            )
        return
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"{out} is not an empty folder and holds no scenes: give another one")
    out.mkdir(parents=True, exist_ok=True)
    _write_whole(mark, wanted)


def _part(out: Path, start: int) -> Path:
    return out / "parts" / f"{start:06d}.json"


def _write_blocks(write: Callable[[int], int], starts: list[int], workers: int) -> Iterator[int]:
    """Run the blocks, in this process or in several; yields how many scenes each one made."""
    if workers == 1 or len(starts) < 2:
        yield from map(write, starts)
        return
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"))
    # The workers inherit the mask: Ctrl-C reaches this process alone, which then ends them.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        futures = [pool.submit(write, start) for start in starts]
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for future in as_completed(futures):
            yield future.result()
    finally:  # an interrupted run ends after the blocks in progress, not after all of them
        pool.shutdown(cancel_futures=True)


def _write_block(out: Path, corpus: Corpus, start: int) -> int:
    """Render the scenes of one block; its part file, written last, says that it is complete."""
    indices = range(start, min(start + BLOCK, corpus.count))
    captions, records = [], []
    for index in indices:
        scene = render_scene(corpus.seed, index)
        image = {"image": f"{index:06d}.jpg", "split": corpus.split(index)}
        scene.image.save(out / "images" / image["image"], quality=QUALITY)
        captions.append(json.dumps({**image, "captions": scene.captions}))
        records.append(json.dumps({**image, **_described(scene)}))
    _write_whole(_part(out, start), json.dumps({"captions": captions, "scenes": records}))
    return len(indices)


def _described(scene: Scene) -> dict[str, Any]:
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


def _join(out: Path, corpus: Corpus) -> None:
    """Join the parts; `captions.jsonl` comes last and says that the corpus is complete."""
    parts = [json.loads(_part(out, s).read_text("utf-8")) for s in range(0, corpus.count, BLOCK)]
    for name in ("scenes", "captions"):
        lines = [line for part in parts for line in part[name]]
        _write_whole(out / f"{name}.jsonl", "\n".join(lines) + "\n")
    shutil.rmtree(out / "parts")


def _write_whole(path: Path, text: str) -> None:
    """Write a file so that it is either absent or complete."""
    fresh = path.with_suffix(".tmp")
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(path)
