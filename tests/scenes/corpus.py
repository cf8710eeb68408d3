"""A corpus of rendered scenes in a folder: written in parallel, reproducible byte by byte."""

from __future__ import annotations

import json
import signal
from collections.abc import Generator
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from dataclasses import asdict
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from sparta.errors import InputError
from sparta.progress import Progress, no_progress
from tests.scenes.captions import SceneObject, SceneRecord, compose_queries
from tests.scenes.draw import render_scene

AT_ONCE = 50  # scenes per unit of work
QUALITY = 90  # of the JPEG files, unless another is asked for
VERSION = 1  # increase it when the same seed gives other scenes or captions


def parse_splits(text: str) -> dict[str, float]:
    """Names and shares from "train" or "train=0.9,val=0.1"."""
    pairs = [part.strip().partition("=") for part in text.split(",")]
    try:
        splits = {name: float(share) if mark else 1.0 for name, mark, share in pairs}
    except ValueError:
        splits = {}
    if abs(sum(splits.values()) - 1) > 1e-6 or any(
        not name or share <= 0 for name, share in splits.items()
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
    """Write `images/`, `scenes.jsonl` and, last, `captions.jsonl`; see `python -m tests.scenes`.

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
    splits = parse_splits(split)
    settings = {"count": count, "seed": seed, "splits": [*splits.items()], "quality": quality}
    _claim(out, json.dumps(settings | {"version": VERSION}) + "\n")
    if (out / "captions.jsonl").is_file():
        progress("draw", count, count)
        return False
    (out / "images").mkdir(exist_ok=True)
    captions, scenes = [], []
    with closing(_drawn(out, count, seed, quality, workers)) as drawn:
        for index, (texts, record) in enumerate(drawn):
            image = {"image": f"{index:06d}.jpg", "split": _split(splits, index, count)}
            captions.append(json.dumps({**image, "captions": texts}) + "\n")
            scenes.append(json.dumps({**image, **record}) + "\n")
            progress("draw", index + 1, count)
    (out / "scenes.jsonl").write_text("".join(scenes), encoding="utf-8")
    fresh = out / "captions.tmp"
    fresh.write_text("".join(captions), encoding="utf-8")
    fresh.replace(out / "captions.jsonl")
    return True


def _claim(out: Path, wanted: str) -> None:
    """Write the settings into an empty folder, or check that it already has the same."""
    mark = out / "settings.json"
    if mark.is_file():
        if (found := mark.read_text(encoding="utf-8")) != wanted:
            raise InputError(
                f"{out} contains other scenes: expected {wanted.strip()}, found {found.strip()};"
                " choose another folder or delete this one"
            )
        return
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"{out} is neither an empty folder nor one of scenes: choose another one")
    out.mkdir(parents=True, exist_ok=True)
    mark.write_text(wanted, encoding="utf-8")


def _split(splits: dict[str, float], index: int, count: int) -> str:
    """Name of the split of scene `index`; splits follow one another."""
    bound = 0.0
    for name, share in splits.items():
        bound += share * count
        if index < round(bound):
            return name
    return name


def _drawn(
    out: Path, count: int, seed: int, quality: int, workers: int
) -> Generator[tuple[list[str], dict[str, Any]]]:
    """Captions and facts of the scenes, whose images are written, in one or several processes."""
    write = partial(_write_scene, out / "images", seed, quality)
    if workers == 1:
        yield from map(write, range(count))
        return
    # Ctrl+C interrupts only this process, which stops the workers.
    ignoring = signal.SIGINT, signal.SIG_IGN
    spawn = get_context("spawn")
    pool = ProcessPoolExecutor(workers, spawn, initializer=signal.signal, initargs=ignoring)
    try:
        yield from pool.map(write, range(count), chunksize=AT_ONCE)
    finally:
        pool.shutdown(cancel_futures=True)


def _write_scene(
    images: Path, seed: int, quality: int, index: int
) -> tuple[list[str], dict[str, Any]]:
    scene = render_scene(seed, index)
    scene.image.save(images / f"{index:06d}.jpg", quality=quality)
    record = asdict(scene.record)
    objects = [one | {"box": [round(v, 4) for v in one["box"]]} for one in record.pop("objects")]
    return scene.texts, {**record, "count": len(objects), "objects": objects}


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
