"""The four ways against loops over every pair, for dense, sparse and several models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from eval.cxc.files import read_judgements
from eval.cxc.relevance import relevant_items
from sparta.command_line import cli
from sparta.errors import InputError
from sparta.features.record import ImageFeatures
from sparta.features.store import FeatureStore
from sparta.features.writer import StoreWriter
from sparta.vse.batch import collate_regions
from sparta.vse.model import VseModel
from tests.eval.cxc.tiny import IMAGES, write_judgements, write_sentences
from tests.eval.dense_models import save_dense
from tests.indexer.tiny import SOURCE

TEXTS = {
    1: "a brown dog",
    5: "the dog",
    3: "two cat",
    2: "red ball",
    9: "the beach",
    4: "a cat run",
}
ORDER = [1, 5, 3, 2, 9, 4]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of the three images and one more, the judgements and the captions."""
    root = tmp_path_factory.mktemp("coco")
    random = np.random.default_rng(0)
    images = []
    for number in sorted([*IMAGES, 99]):
        features = random.standard_normal((4, SOURCE.dimension)).astype(np.float16)
        boxes = np.sort(random.random((4, 4)).astype(np.float32))
        name = f"val2014/COCO_val2014_{number:012}.jpg"
        images.append(ImageFeatures(name, features, boxes, ("",) * 4, ("",) * 4, 40, 30))
    writer = StoreWriter(root / "features", SOURCE)
    writer.write_shard(images)
    writer.finish()
    write_judgements(root / "cxc")
    write_sentences(root / "dataset_coco.json", TEXTS)
    return root


def run(files: Path, targets: list[Path], *more: str) -> Any:
    arguments = ["eval", "cxc", *map(str, targets), "--split", "val", "--device", "cpu"]
    options = {"features": "features", "judgements": "cxc", "captions": "dataset_coco.json"}
    for option, name in options.items():
        arguments += [f"--{option}", str(files / name)]
    return CliRunner().invoke(cli, [*arguments, *more], env={"COLUMNS": "200"})


def figures(found: Any) -> dict[str, Any]:
    assert found.exit_code == 0, (found.output, found.exception)
    answer: dict[str, Any] = json.loads(found.stdout)
    return answer


def slow_scores(folder: Path, files: Path) -> dict[str, list[list[float]]]:
    """Every pair on its own; of two images the best pair of views."""
    model = VseModel.from_pretrained(folder)
    store = FeatureStore.open(files / "features")
    texts = [model.embed_texts([TEXTS[number]])[0] for number in ORDER]
    with torch.no_grad():
        images = [
            model.encode_images(
                collate_regions([store[store.index(f"val2014/COCO_val2014_{number:012}.jpg")]])
            )[0]
            for number in IMAGES
        ]

    def best(one: Any, other: Any) -> float:
        pairs = [(a * b).sum() for a in one.reshape(-1, 16) for b in other.reshape(-1, 16)]
        return float(max(pairs))

    sides = {"text": texts, "image": images}
    return {
        f"{a} → {b}": [[best(one, other) for other in sides[b]] for one in sides[a]]
        for a in sides
        for b in sides
    }


def slow_recall(scores: list[list[float]], right: list[list[int]], same: bool) -> list[float]:
    ranks = []
    for query, items in enumerate(right):
        if items:
            best = max(scores[query][item] for item in items)
            wrong = [i for i in range(len(scores[query])) if i not in items]
            ahead = [i for i in wrong if not (same and i == query) and scores[query][i] >= best]
            ranks.append(len(ahead) + 1)
    return [len(ranks), *(100 * sum(rank <= k for rank in ranks) / len(ranks) for k in (1, 5, 10))]


@pytest.mark.parametrize("views", [[1], [3], [1, 3]], ids=["one view", "three views", "ensemble"])
def test_four_ways_against_loops(views: list[int], files: Path, tmp_path: Path) -> None:
    folders = [save_dense(tmp_path / str(count), count, views=count) for count in views]
    found = figures(run(files, folders, "--json"))
    assert (found["images"], found["captions"], len(found["models"])) == (3, 6, len(views))
    right = relevant_items(read_judgements(files / "cxc", "val"))
    members = [slow_scores(folder, files) for folder in folders]
    for name, answers in right.ways.items():
        parts = [np.array(member[name]) for member in members]
        mean = (sum(parts[1:], parts[0]) / len(parts)).tolist()
        a, _, b = name.partition(" → ")
        way = found[f"{a}_to_{b}"]
        slow = slow_recall(mean, answers, same=a == b)
        assert [way["queries"], way["at_1"], way["at_5"], way["at_10"]] == pytest.approx(slow)
    assert found["image_to_image"]["queries"] == 2


def test_sparse_models_have_two_ways(files: Path, models: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "found.json"
    found = run(files, models[:1], "--out", str(out))
    assert found.exit_code == 0, found.output
    assert "text → image, 6 queries" in found.stdout and "image → text, 3 queries" in found.stdout
    assert "text → text" not in found.stdout
    written = json.loads(out.read_text())
    assert "image_to_image" not in written and written["text_to_image"]["queries"] == 6
    assert written["arguments"]["judgements"] == "cxc"
    mixed = figures(run(files, [models[0], save_dense(tmp_path / "dense")], "--json"))
    assert "text_to_text" not in mixed and len(mixed["models"]) == 2


def test_what_is_missing_is_named(files: Path, tmp_path: Path) -> None:
    model = save_dense(tmp_path / "dense")
    short = tmp_path / "captions.json"
    short.write_text(json.dumps({"images": [{"sentences": [{"sentid": 1, "raw": "a dog"}]}]}))
    found = run(files, [model], "--captions", str(short))
    assert isinstance(found.exception, InputError)
    assert "--captions lacks 5 captions, number 5 for one" in str(found.exception)
    store = FeatureStore.open(files / "features")
    writer = StoreWriter(tmp_path / "some", SOURCE)
    writer.write_shard([store[0]])
    writer.finish()
    arguments = ["eval", "cxc", str(model), "--features", str(tmp_path / "some")]
    arguments += ["--judgements", str(files / "cxc"), "--split", "val"]
    found = CliRunner().invoke(cli, [*arguments, "--captions", str(files / "dataset_coco.json")])
    assert isinstance(found.exception, InputError)
    assert "lacks 2 of the 3 judged images, COCO's number 20 for one" in str(found.exception)
