"""What a detector would find in scenes, in Oscar's form: `python -m tests.scenes.regions`.

Each object is a region: a vector of its pixels, six location numbers, a label, and its colour as an
attribute. The last region is the whole scene, without a label. The detector is drawn, too: it finds
nine objects of ten, misses some colours, and its boxes are a little off.
"""

import json
import random
from base64 import b64encode
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from PIL import Image

CELLS = 4  # a side of the grid of mean colours that is a region's vector
FOUND, NAMED, OFF = 0.9, 0.8, 0.04  # of objects, of colours; standard deviation of a box's side


def regions(
    scenes: Annotated[Path, typer.Argument(help="Folder of `python -m tests.scenes`.")],
    out: Annotated[Path, typer.Option(help="Folder to write.")],
    seed: Annotated[int, typer.Option(help="Of the detector.")] = 0,
) -> None:
    """Write features.tsv and predictions.tsv of scenes."""
    out.mkdir(parents=True)
    files = {name: (out / f"{name}.tsv").open("w") for name in ("features", "predictions")}
    offsets: dict[str, list[int]] = {name: [] for name in files}
    keys = []
    for line in (scenes / "scenes.jsonl").read_text(encoding="utf-8").splitlines():
        scene = json.loads(line)
        keys.append(key := scene["image"].removesuffix(".jpg"))
        with Image.open(scenes / "images" / scene["image"]) as image:
            found = detect(image.convert("RGB"), scene["objects"], random.Random(f"{seed} {key}"))
        objects, rows = zip(*found, strict=True)
        features = np.stack(rows).astype("<f2")
        width, height = image.size
        cells = {
            "features": f"{len(rows)}\t{b64encode(features.tobytes()).decode()}",
            "predictions": json.dumps({"image_h": height, "image_w": width, "objects": objects}),
        }
        for name, file in files.items():
            offsets[name].append(file.tell())
            file.write(f"{key}\t{cells[name]}\n")
    for name, file in files.items():
        file.close()
        (out / f"{name}.lineidx").write_text("".join(f"{one}\n" for one in offsets[name]))
    (out / "imageid2idx.json").write_text(json.dumps({key: n for n, key in enumerate(keys)}))


def detect(
    image: Image.Image, objects: list[dict[str, Any]], chance: random.Random
) -> list[tuple[dict[str, Any], NDArray[np.float64]]]:
    """Objects as Oscar's predictions name them, with their vectors; the whole scene last."""
    width, height = image.size
    found = []
    for item in objects:
        if chance.random() > FOUND:
            continue
        corners = [value + chance.gauss(0, OFF / 2) for value in item["box"]]
        x1, y1, x2, y2 = (min(max(value, 0.0), 1.0) for value in corners)
        box = (
            x1 * width,
            y1 * height,
            max(x2 * width, x1 * width + 2),
            max(y2 * height, y1 * height + 2),
        )
        rect = [round(value, 1) for value in box]
        named = [item["colour"]] if chance.random() < NAMED else []
        one = {"class": item["label"], "conf": round(chance.uniform(0.3, 1), 4), "rect": rect}
        found.append(({**one, "attributes": named}, vector_of(image, rect)))
    whole = [0.0, 0.0, float(width), float(height)]
    found.append(
        ({"class": "", "conf": 1.0, "rect": whole, "attributes": []}, vector_of(image, whole))
    )
    return found


def vector_of(image: Image.Image, rect: list[float]) -> NDArray[np.float64]:
    """Mean colours of a grid of cells, and Oscar's six location numbers."""
    width, height = image.size
    cells = image.resize((CELLS, CELLS), Image.Resampling.BOX, (rect[0], rect[1], rect[2], rect[3]))
    x1, y1, x2, y2 = rect[0] / width, rect[1] / height, rect[2] / width, rect[3] / height
    colours = np.asarray(cells, np.float64).ravel() / 255
    return np.concatenate([colours, [x1, y1, x2, y2, x2 - x1, y2 - y1]])


if __name__ == "__main__":
    typer.run(regions)
