"""A corpus of rendered scenes in a folder: written in parallel, the same bytes for a seed."""

from __future__ import annotations

import json
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from sparta.errors import InputError
from sparta.progress import Progress, no_progress
from tests.scenes.captions import SceneObject, SceneRecord, compose_queries
from tests.scenes.draw import render_scene

BLOCK = 50  # scenes that a process draws at once
QUALITY = 90  # of the JPEG files, unless another is asked for
STAGE = "draw"  # of the progress
VERSION = 1  # increase it when the same seed gives other scenes or captions


def split_names(text: str, count: int) -> list[str]:
    """The split of each scene: "train" of all, or "train=0.9,val=0.1" in their order.

    Raises:
        InputError: if a share is not a positive number, or the shares do not sum to 1.
    """
    pairs = [part.strip().partition("=") for part in text.split(",")]
    try:
        shares = [(name, float(share) if mark else 1.0) for name, mark, share in pairs]
    except ValueError:
        shares = []
    total = sum(share for _, share in shares)
    if abs(total - 1) > 1e-6 or not all(name and share > 0 for name, share in shares):
        raise InputError(
            f"--split {text!r}: expected one name, or names with shares that sum to 1,"
            " such as train=0.9,val=0.1"
        )
    names, bound = list[str](), 0.0
    for name, share in shares:
        bound += share * count
        names += [name] * (round(bound) - len(names))
    return names


def write_scenes(
    out: Path,
    count: int,
    seed: int,
    split: str = "train",
    workers: int = 1,
    progress: Progress = no_progress,
    quality: int = QUALITY,
) -> bool:
    """Write `images/`, `captions.jsonl` and `scenes.jsonl`.

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
        InputError: if the folder contains something else, or the splits make no sense.
    """
    splits, mark = split_names(split, count), out / "settings.json"
    wanted = json.dumps([VERSION, count, seed, split, quality])
    if mark.is_file() and mark.read_text(encoding="utf-8") == wanted:
        if (out / "captions.jsonl").is_file():
            return False
    elif out.exists() and any(out.iterdir()):
        raise InputError(f"{out} contains something else: choose another folder")
    (out / "images").mkdir(parents=True, exist_ok=True)
    mark.write_text(wanted, encoding="utf-8")
    lines: dict[str, list[str]] = {"scenes": [], "captions": []}
    blocks = [range(count)[start : start + BLOCK] for start in range(0, count, BLOCK)]
    write = partial(_write_block, out / "images", seed, splits, quality)
    with ExitStack() as stack:
        run: Any = map
        if workers > 1:
            pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"))
            run = stack.enter_context(pool).map
        for written in run(write, blocks):
            for name, own in zip(lines, written, strict=True):
                lines[name] += own
            progress(STAGE, len(lines["scenes"]), count)
    for name, own in lines.items():  # captions.jsonl, written last, marks the corpus as complete
        (out / f"{name}.tmp").write_text("\n".join(own) + "\n", encoding="utf-8")
        (out / f"{name}.tmp").replace(out / f"{name}.jsonl")
    return True


def _write_block(
    folder: Path, seed: int, splits: list[str], quality: int, numbers: range
) -> tuple[list[str], list[str]]:
    """Draw some scenes; their lines of `scenes.jsonl` and `captions.jsonl`."""
    records, captions = [], []
    for index in numbers:
        scene = render_scene(seed, index)
        image = {"image": f"{index:06d}.jpg", "split": splits[index]}
        scene.image.save(folder / image["image"], quality=quality)
        facts: dict[str, Any] = asdict(scene.record)
        objects = facts.pop("objects")
        for item in objects:
            item["box"] = [round(v, 4) for v in item["box"]]
        facts |= {"count": len(objects), "objects": objects}
        records.append(json.dumps(image | facts))
        captions.append(json.dumps({**image, "captions": scene.texts}))
    return records, captions


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
