import json
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from sparta.captions.read import CaptionedPhoto
from sparta.command_line import cli
from sparta.errors import InputError
from sparta.features.store import FeatureStore
from sparta.vse.batch import collate_regions
from sparta.vse.model import VseModel
from tests.eval.dense_models import save_dense


def slow_study(
    folder: Path, store: FeatureStore, captioned: list[CaptionedPhoto]
) -> tuple[float, list[float]]:
    """Mean cosine of two views, and each view's share of captions, one image at a time."""
    model = VseModel.from_pretrained(folder)
    cosines: list[float] = []
    wins = [0] * model.config.views
    for photo in captioned:
        image = store[store.index(photo.image_id)]
        with torch.no_grad():
            views = model.encode_images(collate_regions([image]))[0]
        for first in range(len(views)):
            for second in range(first):
                cosines.append(float(views[first] @ views[second]))
        for text in model.embed_texts(list(photo.captions)):
            scores = [float(view @ text) for view in views]
            wins[scores.index(max(scores))] += 1
    return sum(cosines) / len(cosines), [count / sum(wins) for count in wins]


def run(arguments: list[str], out: Path) -> BaseException | None:
    found = CliRunner().invoke(cli, ["figure", "views", *arguments, "--out", str(out)])
    return found.exception


def test_two_models(
    views: list[FeatureStore], captioned: list[CaptionedPhoto], captions_file: Path, tmp_path: Path
) -> None:
    models = [save_dense(tmp_path / str(seed), seed, views=3) for seed in (0, 1)]
    out = tmp_path / "views.png"
    data = ["--features", str(views[0].folder), "--captions", str(captions_file)]
    assert run([f"0.7={models[0]}", str(models[1]), *data, "--device", "cpu"], out) is None
    assert out.read_bytes().startswith(b"\x89PNG")
    found = json.loads(out.with_suffix(".json").read_text())["models"]
    assert [study["name"] for study in found] == ["0.7", str(models[1])]
    for study, folder in zip(found, models, strict=True):
        similarity, selected = slow_study(folder, views[0], captioned)
        assert study["similarity"] == pytest.approx(similarity, abs=1e-5)
        assert study["selected"] == pytest.approx(selected)
        asked = CliRunner().invoke(
            cli, ["eval", "model", str(folder), *data, "--device", "cpu", "--json"]
        )
        assert study["rsum"] == pytest.approx(json.loads(asked.stdout)["rsum"])
    assert found[0]["selected"] != found[1]["selected"]


def test_models_without_views(
    views: list[FeatureStore], models: list[Path], captions_file: Path, tmp_path: Path
) -> None:
    one = save_dense(tmp_path / "one")
    data = ["--features", str(views[0].folder), "--captions", str(captions_file)]
    for folder, message in ((one, "has one view of an image"), (models[0], "is no dense model")):
        error = run([str(folder), *data, "--device", "cpu"], tmp_path / "views.png")
        assert isinstance(error, InputError) and message in str(error)
