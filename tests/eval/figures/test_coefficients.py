import json
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from sparta.command_line import cli
from sparta.errors import InputError
from sparta.vse.model import VseModel
from tests.eval.dense_models import save_dense
from tests.sparta.vse.models import bigru


def save(model: VseModel, folder: Path) -> str:
    model.save_pretrained(folder)
    return str(folder)


def run(*arguments: str) -> dict[str, object] | BaseException:
    found = CliRunner().invoke(cli, ["figure", "coefficients", *arguments])
    if found.exception is not None:
        return found.exception
    out = Path(arguments[arguments.index("--out") + 1])
    assert out.read_bytes().startswith(b"\x89PNG")
    loaded: dict[str, object] = json.loads(out.with_suffix(".json").read_text())
    return loaded


def slow_coefficients(pooling: torch.nn.Module, size: int) -> list[float]:
    """Column j of the set has j ones and then zeros: its pooled value is θ_1 + … + θ_j."""
    steps = torch.triu(torch.ones(size, size + 1), diagonal=1)
    pooled = pooling(steps[None], torch.tensor([size]))[0].tolist()
    return [after - before for before, after in pairwise(pooled)]


def test_every_pooling_of_a_model(tmp_path: Path) -> None:
    model = bigru(visual_pooling="gpo", text_pooling="gpo", views=2)
    folder = save(model, tmp_path / "model")
    found = run(folder, "--regions", "4,3", "--words", "5", "--out", str(tmp_path / "a.png"))
    assert isinstance(found, dict)
    expected = [
        {"side": side, "name": name, "size": size, "weights": slow_coefficients(pooling, size)}
        for side, name, pooling, sizes in (
            ("image", "image, view 1", model.visual_poolings[0], (3, 4)),
            ("image", "image, view 2", model.visual_poolings[1], (3, 4)),
            ("text", "text", model.text_pooling, (5,)),
        )
        for size in sizes
    ]
    curves = found["curves"]
    assert isinstance(curves, list) and len(curves) == len(expected)
    for curve, wanted in zip(curves, expected, strict=True):
        assert curve["weights"] == pytest.approx(wanted.pop("weights"), abs=1e-5)
        assert sum(curve.pop("weights")) == pytest.approx(1)
        assert curve == wanted


def test_a_side_without_gpo_is_left_out(tmp_path: Path) -> None:
    folder = save(bigru(visual_pooling="gpo"), tmp_path / "model")
    found = run(folder, "--out", str(tmp_path / "a.png"))
    assert isinstance(found, dict)
    curves = found["curves"]
    assert isinstance(curves, list)
    assert [(curve["name"], curve["size"]) for curve in curves] == [("image", 36)]


def test_what_cannot_be_drawn(tmp_path: Path) -> None:
    mean = str(save_dense(tmp_path / "mean"))
    out = str(tmp_path / "a.png")
    for arguments, message in (
        ([mean, "--out", out], "pools by mean and mean: only gpo"),
        ([mean, "--out", out, "--regions", "0"], "--regions: '0' is not a number from 1"),
        ([mean, "--out", str(tmp_path / "a.jpg")], "must be a .png file"),
        ([mean, "--out", str(tmp_path / "no" / "a.png")], "in a folder that exists"),
    ):
        error = run(*arguments)
        assert isinstance(error, InputError) and message in str(error)
