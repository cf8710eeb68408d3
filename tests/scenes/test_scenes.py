"""The drawings, captions and queries of a seed stay what they are, and so does the folder of them.

The model `sample` learnt from them, and the golden answers are of them: another drawing or caption
would need both anew. The digests were taken when captions had been compared with the facts of
their scenes, and the answers of queries with a slow reading of them.
"""

import json
import random
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from sparta.errors import InputError
from tests.scenes.captions import compose_queries
from tests.scenes.corpus import BLOCK, write_queries, write_scenes
from tests.scenes.draw import SIDE, Backdrop, SceneLayout, paste, render_scene
from tests.scenes.drawings import BACKDROPS

DIGEST = "8297df05f9205937342f9ca811836c9b8e3654e32c96399e5429b28530a66e11"


def _bytes(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def _lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_facts_captions_and_queries_of_a_seed_are_those_that_were_checked() -> None:
    scenes = {f"{index}": render_scene(9, index) for index in range(250)}
    queries = compose_queries({name: scene.record for name, scene in scenes.items()}, 60, 1)
    found: list[Any] = [[scene.texts, asdict(scene.record)] for scene in scenes.values()]
    for _, record in found:
        for one in record["objects"]:
            one["box"] = [round(value, 4) for value in one["box"]]
    text = json.dumps([found, [asdict(query) for query in queries]], sort_keys=True)
    assert sha256(text.encode()).hexdigest() == DIGEST


def test_pixels_are_of_the_seed_and_the_number() -> None:
    first = render_scene(1, 7).image.tobytes()
    assert first == render_scene(1, 7).image.tobytes()
    assert first not in (render_scene(1, 8).image.tobytes(), render_scene(2, 7).image.tobytes())


@pytest.mark.parametrize("index", range(12))
def test_a_box_is_the_bounds_of_the_pixels_drawn(index: int) -> None:
    rng, side = random.Random(index), 2 * SIDE
    backdrop = Backdrop(rng.choice(sorted(BACKDROPS)), side, "day", rng)
    for sprite in SceneLayout(backdrop, rng).compose():
        canvas = Image.new("RGB", (side, side), (255, 0, 255))
        paste(canvas, sprite)
        rows, columns = np.nonzero((np.asarray(canvas) != (255, 0, 255)).any(axis=2))
        x1, y1, x2, y2 = (v * side for v in sprite.item.box)
        assert abs(columns.min() - x1) <= 1
        assert abs(columns.max() + 1 - x2) <= 1
        assert abs(rows.min() - y1) <= 1
        shadow = 0.09 * (x2 - x1) + 3
        assert -1 <= rows.max() + 1 - y2 <= shadow


def test_the_folder_has_images_captions_facts_and_queries(tmp_path: Path) -> None:
    assert write_scenes(tmp_path, 6, seed=2, split="train=0.5,val=0.5")
    assert write_queries(tmp_path, 3, 2) == 3
    names = ("captions", "scenes", "queries")
    captions, records, queries = (_lines(tmp_path / f"{name}.jsonl") for name in names)
    scenes = {f"{index:06d}.jpg": render_scene(2, index) for index in range(6)}
    assert [line["image"] for line in captions] == [*scenes]
    assert [line["captions"] for line in captions] == [scene.texts for scene in scenes.values()]
    assert [line["split"] for line in captions] == ["train"] * 3 + ["val"] * 3
    assert [line["count"] for line in records] == [len(s.record.objects) for s in scenes.values()]
    expected = compose_queries({name: scene.record for name, scene in scenes.items()}, 3, 2)
    assert [query["images"] for query in queries] == [list(query.images) for query in expected]
    with Image.open(tmp_path / "images" / "000005.jpg") as image:
        assert image.size == scenes["000005.jpg"].image.size


def test_bytes_do_not_depend_on_workers_and_a_finished_folder_is_left(tmp_path: Path) -> None:
    for workers in (1, 2):
        assert write_scenes(tmp_path / str(workers), BLOCK + 5, seed=1, workers=workers)
    assert _bytes(tmp_path / "1") == _bytes(tmp_path / "2")
    assert not write_scenes(tmp_path / "1", BLOCK + 5, seed=1)
    with pytest.raises(InputError, match="contains something else: choose another folder"):
        write_scenes(tmp_path / "1", BLOCK + 5, seed=2)
    assert _bytes(tmp_path / "1") == _bytes(tmp_path / "2")


@pytest.mark.parametrize("split", ["train=0.5", "a=2,b=-1", "a=x", ""])
def test_shares_that_make_no_sense_are_refused(tmp_path: Path, split: str) -> None:
    with pytest.raises(InputError, match="--split"):
        write_scenes(tmp_path, 3, 1, split)
    assert not any(tmp_path.iterdir())
