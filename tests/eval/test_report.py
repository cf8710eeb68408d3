"""The head of a result: it identifies the command, the data, the models and the machine."""

import hashlib
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from eval.report import fingerprint, index_models
from indexer.build import build_index
from indexer.dense.build import add_dense
from indexer.encoding.models import model_fingerprint
from indexer.maintenance.combine import split_index
from indexer.update.images import delete_images
from sparta.features.store import FeatureStore
from sparta.visualsparta.model import VisualSparta
from sparta.vse.model import VseModel
from tests.eval.data import Data, record, save_dense, shown, write_captions


@pytest.fixture(scope="module")
def index(
    tmp_path_factory: pytest.TempPathFactory, views: list[FeatureStore], models: list[Path]
) -> Path:
    out = tmp_path_factory.mktemp("index") / "an index"
    build_index(views, models, out, device="cpu")
    return out


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_every_command_has_the_head(index: Path, data: Data, tmp_path: Path) -> None:
    """Printed above the table; the JSON on stdout and of --out are the same document."""
    captions, store, model = data.captions_file, data.views[0], data.models[0]
    queries = tmp_path / "queries.jsonl"
    queries.write_text(json.dumps({"query": "dog", "images": [store.ids[0]]}))
    own = model_fingerprint(VisualSparta.from_pretrained(model))
    both = [model_fingerprint(VisualSparta.from_pretrained(one)) for one in data.models]
    features = ["--features", store.folder, "--captions", captions]
    for arguments, command, known, models in (
        (
            ["index", index, "--captions", captions, "--no-substitute"],
            "sparta eval index 'an index' --captions captions.jsonl --no-substitute",
            {"index": [fingerprint(index)], "captions": [sha256(captions)]},
            both,
        ),
        (
            ["model", model, *features, "--batch-size", "4"],
            f"sparta eval model {model} --captions captions.jsonl --features plain --batch-size 4",
            {"features": [store.fingerprint], "captions": [sha256(captions)]},
            [own],
        ),
        (
            ["pruning", store.folder, "--model", model, "--captions", captions, "--exact",
             "--top-n", "3", "--frequencies", f"none,{queries}"],
            f"sparta eval pruning plain --model {model} --captions captions.jsonl "
            f"--top-n 3 --frequencies none,{queries} --exact",
            {
                "features": [store.fingerprint],
                "captions": [sha256(captions)],
                "frequencies": [sha256(queries)],
            },
            [own],
        ),
    ):  # fmt: skip
        out = tmp_path / "out.json"
        text = shown("eval", *arguments, "--out", out, width=40)
        found = json.loads(out.read_text())
        if arguments[0] != "pruning":
            assert record("eval", *arguments).keys() == found.keys()
        assert found["command"].replace(" --out out.json", "") == command
        assert found["data"] == known and found["models"] == models and found["seed"] is None
        assert found["machine"]["cores"] == len(os.sched_getaffinity(0))
        lines = text.splitlines()
        assert lines[0] == found["command"]
        assert lines[1].startswith(f"visualsparta {found['version']}, 20")
        assert lines[1].endswith(f"cores of {found['machine']['processor']}")
        assert lines[2].startswith("data: ") and lines[2].endswith("; seed: none")
        for digits in [*(one for part in known.values() for one in part), *models]:
            assert digits[:12] in lines[2] and digits[:13] not in lines[2]


def test_the_seed_of_a_sample(data: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    photos = [*data.captioned[:5], *(replace(one, split="train") for one in data.captioned[5:])]
    captions = write_captions(tmp_path / "captions.jsonl", photos)
    arguments = ["eval", "model", data.models[0], "--features", data.views[0].folder]
    arguments += ["--captions", captions, "--reference", "train"]
    assert record(*arguments)["seed"] is None
    monkeypatch.setattr("eval.recall.scores.SAMPLE", 10)
    assert record(*arguments)["seed"] == 0


def test_fingerprints_follow_the_content(index: Path, data: Data, tmp_path: Path) -> None:
    before = fingerprint(index)
    copy = shutil.copytree(index, tmp_path / "copy")
    assert fingerprint(copy) == before
    model = save_dense(tmp_path / "dense")
    add_dense(copy, data.views[0], "vse", model, device="cpu")
    dense = fingerprint(copy)
    assert dense != before
    assert index_models(copy, "vse") == [model_fingerprint(VseModel.from_pretrained(model))]
    delete_images(copy, [data.views[0].ids[0]])
    assert fingerprint(copy) != dense and index_models(copy) == index_models(index)
    split_index(index, tmp_path / "divided", 2)
    assert fingerprint(tmp_path / "divided") not in (before, dense)
    assert index_models(tmp_path / "divided") == index_models(index)
    folder = tmp_path / "folder"
    (folder / "a").mkdir(parents=True)
    (folder / "a" / "x.csv").write_text("1")
    first = fingerprint(folder)
    (folder / "a" / "x.csv").write_text("2")
    assert fingerprint(folder) != first
