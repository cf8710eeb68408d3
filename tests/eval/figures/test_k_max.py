import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from eval.figures.k_max import overrides, parse_sizes, run_grid, train_by_command
from sparta.command_line import cli
from sparta.errors import InputError
from tests.training.corpus import Corpus
from training.config import load_config
from training.fit import train
from training.vse.config import VseTrainConfig


class Trainer:
    """Notes what it is asked for; a run on the way is broken off if `breaks` says so."""

    def __init__(self, breaks: str = "") -> None:
        self.asked: list[tuple[str, bool]] = []
        self.breaks = breaks

    def __call__(self, run: Path, settings: Sequence[str], resume: bool) -> None:
        self.asked.append((run.name, resume))
        assert list(settings) == overrides(*run.name.split("-")[1::2])
        (run / "checkpoints").mkdir(parents=True, exist_ok=True)
        (run / "checkpoints" / "last.ckpt").touch()
        if run.name == self.breaks:
            raise InputError("broken off")
        (run / "model").mkdir()


def measure(model: Path) -> float:
    """A figure for each run, from its name."""
    return float(len(model.parent.name)) + model.parent.name.count("all")


def test_a_broken_off_search_goes_on_where_it_was(tmp_path: Path) -> None:
    sizes = ["1", "all"], ["5", "20"]
    with pytest.raises(InputError, match="broken off"):
        run_grid(tmp_path, *sizes, {"preset": "a"}, Trainer("visual-all-text-5"), measure)
    again = Trainer()
    grid = run_grid(tmp_path, *sizes, {"preset": "a"}, again, measure)
    assert again.asked == [("visual-all-text-5", True), ("visual-all-text-20", False)]
    names = [[f"visual-{v}-text-{t}" for t in ("5", "20")] for v in ("1", "all")]
    assert grid.rsum == [[float(len(name) + name.count("all")) for name in row] for row in names]
    assert (grid.visual, grid.text) == sizes
    # A larger grid repeats nothing; other settings are another grid.
    more = Trainer()
    run_grid(tmp_path, ["1", "2"], ["5"], {"preset": "a"}, more, measure)
    assert more.asked == [("visual-2-text-5", False)]
    with pytest.raises(InputError, match=r"grid\.json has other settings than these"):
        run_grid(tmp_path, *sizes, {"preset": "b"}, Trainer(), measure)


def test_overrides_are_settings_of_the_pooling() -> None:
    config = load_config("coco/vse-inf-region-bigru", overrides("5", "all"))
    assert isinstance(config, VseTrainConfig)
    options = config.model.options
    assert (options["visual_pooling"], options["visual_pooling_options"]) == ("k-max", {"k": 5})
    assert (options["text_pooling"], options["text_pooling_options"]) == ("mean", {})


def test_training_is_the_command_one_would_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[list[str]] = []

    def fake(command: list[str], check: bool) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        return subprocess.CompletedProcess(command, len(commands) - 1)

    monkeypatch.setattr(subprocess, "run", fake)
    step = train_by_command("sample", ["epochs=1"])
    step(tmp_path / "run", ["seed=3"], False)
    assert commands[0][1:] == [
        *("-m", "sparta", "train", "sample", "--out", str(tmp_path / "run")),
        *("--set", "epochs=1", "--set", "seed=3"),
    ]
    with pytest.raises(InputError, match="run: training ended with the error above"):
        step(tmp_path / "run", [], True)
    assert commands[1][-1] == "--resume"


def test_sizes() -> None:
    assert parse_sizes("5, all,1,5", "--text") == ["5", "all", "1"]
    for wrong in ("0", "most", "", "1,-2"):
        with pytest.raises(InputError, match=r"--text: .* is neither a number from 1 nor all"):
            parse_sizes(wrong, "--text")


def test_command(corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two cells, trained in this process for the time's sake."""

    def in_process(preset: str, given: Sequence[str]) -> Any:
        def step(run: Path, settings: Sequence[str], resume: bool) -> None:
            train(load_config(preset, [*given, *settings]), run, resume)

        return step

    monkeypatch.setattr("eval.figures.k_max.train_by_command", in_process)
    small = ["model.options.dimension=8", "model.min_count=1", "epochs=1", "batch_size=30"]
    small += ["workers=0", "accelerator=cpu", "devices=1", "data.validation_split=null"]
    arguments = ["coco/vse++-region-bigru", "--features", str(corpus.features)]
    arguments += ["--captions", str(corpus.captions), "--split", "train", "--device", "cpu"]
    arguments += ["--visual", "1", "--text", "1,all", "--runs", str(tmp_path / "runs")]
    for setting in small:
        arguments += ["--set", setting]
    out = tmp_path / "k-max.png"
    done = CliRunner().invoke(cli, ["figure", "k-max", *arguments, "--out", str(out)])
    assert done.exit_code == 0, (done.output, done.exception)
    assert out.read_bytes().startswith(b"\x89PNG")
    found = json.loads(out.with_suffix(".json").read_text())
    asked = CliRunner().invoke(
        cli,
        [
            *("eval", "model", str(tmp_path / "runs" / "visual-1-text-all" / "model")),
            *("--features", str(corpus.features), "--captions", str(corpus.captions)),
            *("--split", "train", "--device", "cpu", "--json"),
        ],
    )
    assert found["rsum"][0][1] == pytest.approx(json.loads(asked.stdout)["rsum"])
    assert (found["visual"], found["text"]) == (["1"], ["1", "all"])
