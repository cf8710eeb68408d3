import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from eval.figures.negatives import moving_mean, read_negatives
from sparta.command_line import cli
from sparta.errors import InputError
from tests.training.corpus import Corpus
from tests.training.vse.runs import config
from training.fit import train


def write_run(folder: Path, logs: dict[int, str], variant: str = "paper") -> Path:
    settings = {"objective": {"variant": variant}, "batch_size": 32}
    folder.mkdir()
    (folder / "config.yaml").write_text(yaml.safe_dump(settings))
    for version, text in logs.items():
        path = folder / "logs" / f"version_{version}" / "metrics.csv"
        path.parent.mkdir(parents=True)
        path.write_text(text)
    return folder


def test_a_resumed_run_counts_where_it_repeated_steps(tmp_path: Path) -> None:
    first = "epoch,loss,step,negatives\n0,,9,31.0\n0,,19,30.0\n0,5.5,19,\n1,,29,7.0\n"
    second = "epoch,step,negatives\n1,29,20.0\n1,39,12.5\n"
    third = "epoch,step,negatives\n2,49,3.0\n"
    found = read_negatives(write_run(tmp_path / "run", {0: first, 2: second, 10: third}))
    assert found.steps == [9, 19, 29, 39, 49]
    assert found.negatives == [31.0, 30.0, 20.0, 12.5, 3.0]
    assert (found.variant, found.batch_size) == ("paper", 32)


def test_moving_mean() -> None:
    values = [4.0, 8.0, 0.0, 2.0]
    assert moving_mean(values, 2) == [4.0, 6.0, 4.0, 1.0]
    assert moving_mean(values, 9) == pytest.approx([4.0, 6.0, 4.0, 3.5])


def test_real_runs_of_both_formulas(corpus: Corpus, tmp_path: Path) -> None:
    for variant in ("paper", "code"):
        objective = {"kind": "adopt", "variant": variant}
        train(config(corpus, "vse-2ad", objective=objective, epochs=4), tmp_path / variant)
    runs = [str(tmp_path / variant) for variant in ("paper", "code")]
    out = tmp_path / "negatives.png"
    done = CliRunner().invoke(cli, ["figure", "negatives", *runs, "--out", str(out)])
    assert done.exit_code == 0, done.exception
    assert out.read_bytes().startswith(b"\x89PNG")
    printed, coded = json.loads(out.with_suffix(".json").read_text())["runs"]
    assert (printed["variant"], coded["variant"]) == ("paper", "code")
    assert printed["steps"] == coded["steps"] and len(printed["steps"]) >= 2
    assert all(1 <= k <= 29 for k in (*printed["negatives"], *coded["negatives"]))
    # A trained model: as printed most pairs stay negatives, as coded few do.
    assert printed["negatives"][-1] > 20 > coded["negatives"][-1]


def test_what_is_no_such_run(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"is no run of sparta train: it has no config\.yaml"):
        read_negatives(tmp_path)
    silent = write_run(tmp_path / "run", {0: "epoch,loss,step\n0,1.0,9\n"})
    with pytest.raises(InputError, match=r"its logs have no negatives; runs with objective\.kind"):
        read_negatives(silent)
