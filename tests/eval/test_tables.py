"""Tables of ablations: every cell can be trained, a tiny table is, and claims are judged."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from numpy.typing import NDArray

from eval import tables
from eval.tables import TABLES, Ablation, AblationResult, Cell, Data, Ranks, measure_table
from sparta.errors import InputError
from sparta.files import read_yaml
from tests.indexer.command_line import sparta_here
from tests.training.corpus import ON_CPU, write_corpus
from training.config import load_config

NAMES = list(read_yaml(TABLES))


@pytest.mark.parametrize("name", NAMES)
def test_every_cell_can_be_trained_and_has_its_own_folder(name: str, tmp_path: Path) -> None:
    ablation = Ablation.open(name)
    cells = [Cell(*one) for one in product(ablation.rows, ablation.columns)]
    assert len({cell.folder(0) for cell in cells}) == len(cells)
    for cell in cells:
        settings = ablation.settings(cell, tmp_path)
        config = load_config(
            ablation.preset(cell), [f"{key}={json.dumps(value)}" for key, value in settings.items()]
        )
        assert config.model_dump()
        published = ablation.rows[cell.row].get("published", {}).get(cell.column)
        assert published is None or len(published) == len(ablation.measures)
    for above, below in ablation.claims:
        assert above != below and {above, below} <= ablation.rows.keys()


SMALL = ON_CPU | {
    **{"batch_size": 30, "epochs": 1, "milestones": [], "data.validation_photos": 0},
    **{"model.min_count": 1, "model.options.dimension": 16, "model.options.word_dim": 8},
}
TINY: dict[str, Any] = {
    "tiny": {
        "title": "two poolings",
        "published": "nowhere",
        "measures": ["t2i R@1", "i2t R@5"],
        "columns": {"region": {"preset": "flickr8k/vse++-region-bigru"}},
        "rows": {
            "mean": {"published": {"region": [10.0, 20.0]}},
            "max": {"set": {"model.options.visual_pooling": "max"}},
        },
        "claims": [["max", "mean"]],
    }
}


def test_a_table_is_trained_once_and_measured_as_the_models_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tables.yaml").write_text(yaml.safe_dump(TINY, sort_keys=False))
    monkeypatch.setattr(tables, "TABLES", tmp_path / "tables.yaml")
    corpus, out = write_corpus(tmp_path), tmp_path / "runs"
    command = ["eval", "table", "tiny", "--features", f"region={corpus.features}", "--seeds", "1"]
    command += ["--captions", str(corpus.captions), "--split", "train", "--out", str(out)]
    command += [word for key, value in SMALL.items() for word in ("--set", f"{key}={value}")]
    done = sparta_here(*command)
    assert done.returncode == 0, done.stderr
    found = json.loads((out / "tiny.json").read_text())
    assert "max > mean" in (out / "tiny.md").read_text()
    [mean, best] = found["rows"]
    assert (mean["row"], best["row"], mean["published"]) == ("mean", "max", [10.0, 20.0])
    model = out / Cell("mean", "region").folder(0) / "model"
    again = ["eval", "model", str(model), "--features", str(corpus.features), "--json"]
    done = sparta_here(*again, "--captions", str(corpus.captions), "--split", "train")
    wanted = json.loads(done.stdout)["text_to_image"]["at_1"]
    assert mean["measured"]["t2i R@1"] == pytest.approx([wanted, 0], abs=0.06)
    times = {path: path.stat().st_mtime_ns for path in out.glob("*/model/*")}
    assert sparta_here(*command).returncode == 0
    assert times == {path: path.stat().st_mtime_ns for path in out.glob("*/model/*")}


def ranks(captions: NDArray[np.int64], share: float, rng: np.random.Generator) -> Ranks:
    """Of a model that ranks this share of photos and captions first, all others second."""
    t2i, i2t = (np.where(rng.random(n) < share, 1, 2) for n in (captions.sum(), len(captions)))
    return Ranks(captions, t2i, i2t, 10, "model")


@pytest.mark.parametrize(
    ("above", "below", "verdict"),
    [(0.8, 0.5, "holds"), (0.5, 0.8, "does not hold"), (0.6, 0.6, "within noise")],
)
def test_a_claim_is_judged_by_photos_and_seeds_drawn_again(
    above: float, below: float, verdict: str
) -> None:
    ablation = Ablation(**TINY["tiny"] | {"measures": ["t2i R@1", "i2t R@1"]})
    rng = np.random.default_rng(0)
    captions = rng.integers(1, 4, 200)
    shares = {"max": above, "mean": below}
    found = {
        Cell(row, "region"): [ranks(captions, share, rng) for _ in range(3)]
        for row, share in shares.items()
    }
    result = AblationResult("tiny", ablation, found)
    [claim] = result.claims()
    assert claim.verdict == verdict

    def summed(row: str, seeds: Iterable[int], photos: NDArray[np.int64]) -> float:
        texts = np.concatenate([np.arange(ends[p] - captions[p], ends[p]) for p in photos])
        runs = [found[Cell(row, "region")][seed] for seed in seeds]
        firsts = [(one.t2i[texts] == 1).mean() + (one.i2t[photos] == 1).mean() for one in runs]
        return 100 * float(np.mean(firsts))

    ends, every = np.cumsum(captions), np.arange(200)
    difference = summed("max", range(3), every) - summed("mean", range(3), every)
    assert claim.difference == pytest.approx(difference)
    drawn = []  # in the plain way: one draw after another
    for _ in range(1000):
        photos = rng.integers(200, size=200)
        values = [summed(row, rng.integers(3, size=3), photos) for row in shares]
        drawn.append(values[0] - values[1])
    assert np.percentile(drawn, [2.5, 97.5]) == pytest.approx(claim.interval, abs=1.5)


@pytest.mark.parametrize(
    ("name", "columns", "rows", "message"),
    [
        ("gpo-9", ["region"], [], "'gpo-9' is no table"),
        ("2ad-3", ["grid"], [], "2ad-3 has --features"),
        ("2ad-3", ["region"], ["GPO"], "--row 'GPO': 2ad-3 has 'VSE\\+2AD', 'without"),
    ],
)
def test_what_there_is_not_is_refused(
    name: str, columns: list[str], rows: list[str], message: str, tmp_path: Path
) -> None:
    data = Data(dict.fromkeys(columns, tmp_path), tmp_path / "captions.jsonl", "val", "all")
    with pytest.raises(InputError, match=message):
        measure_table(name, data, tmp_path, [], [], 1, rows)
