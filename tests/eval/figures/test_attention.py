import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

from eval.figures.attention import heat_map, look
from sparta.command_line import cli
from sparta.errors import InputError
from sparta.features.record import ImageFeatures
from sparta.vse.batch import RegionBatch
from sparta.vse.model import VseModel
from tests import tiny
from tests.sparta.vse.models import bigru
from tests.stores import write_store

IMAGE = tiny.image(4, seed=3)
CAPTIONS = ["a dog", "the red ball", "two men by the sea", "a man's hat"]


def slow_similarity(model: VseModel, image: ImageFeatures) -> list[list[float]]:
    """Each view against each region alone in the joint space, as mean pooling of one shows it."""
    features = torch.from_numpy(image.features.astype(np.float32))[None]
    lengths = torch.tensor([len(image.features)])
    with torch.no_grad():
        views = model.encode_images(RegionBatch(features, lengths))[0]
        rows = []
        for number, view in enumerate(views):
            shared = len(model.visual_projections) == 1
            project = model.visual_projections[0 if shared else number]
            visual = features.sqrt() if model.config.square_root else features
            row = []
            for region in range(len(image.features)):
                vector = project(visual[:, region : region + 1], torch.tensor([1]))[0, 0]
                norm = math.sqrt(sum(float(x) ** 2 for x in vector))
                row.append(
                    sum(float(a) * float(b) for a, b in zip(vector, view, strict=True)) / norm
                )
            rows.append(row)
    return rows


@pytest.mark.parametrize(
    "options",
    [
        {"views": 2, "visual_pooling": "gpo"},
        {"views": 3, "view_projections": "separate", "square_root": True},
        {"visual": "grid"},
    ],
)
def test_similarity_of_regions_and_views(options: dict[str, Any]) -> None:
    model = bigru(**options)
    found = look(model, IMAGE, CAPTIONS)
    expected = slow_similarity(model, IMAGE)
    for row, wanted in zip(found.similarity, expected, strict=True):
        assert row == pytest.approx(wanted, abs=1e-5)
    assert found.boxes == IMAGE.boxes.tolist()
    # Every caption stands under one view: the nearest.
    chosen = [found.chosen(view) for view in range(len(expected))]
    assert sorted(text for texts in chosen for text in texts) == sorted(CAPTIONS)
    for view, texts in enumerate(chosen):
        assert all(found.captions[text][view] == max(found.captions[text]) for text in texts)


def test_regions_beyond_the_models_limit_are_not_shown() -> None:
    found = look(bigru(max_regions=2), IMAGE, [])
    assert len(found.boxes) == len(found.similarity[0]) == 2
    assert found.captions == {}


def test_heat_map() -> None:
    boxes = np.array([[0, 0, 0.5, 1], [0.25, 0, 0.75, 0.5], [0, 0, 1, 1]], np.float32)
    values = np.array([2.0, 4.0, 100.0], np.float32)
    rows, columns = 6, 8
    found = heat_map(boxes, values, (rows, columns))
    for row in range(rows):
        for column in range(columns):
            x, y = (column + 0.5) / columns, (row + 0.5) / rows
            over = [
                float(value)
                for (left, top, right, bottom), value in zip(boxes[:2], values, strict=False)
                if left <= x < right and top <= y < bottom
            ]
            if over:
                assert found[row, column] == pytest.approx(sum(over) / len(over))
            else:
                assert math.isnan(found[row, column])


def test_an_image_without_places_is_refused() -> None:
    whole = np.tile(np.array([0, 0, 1, 1], np.float32), (4, 1))
    image = ImageFeatures("a.jpg", IMAGE.features, whole, ("",) * 4, ("",) * 4, 0, 0)
    with pytest.raises(InputError, match=r"a\.jpg: its features have no boxes"):
        look(bigru(), image, [])


def test_command(tmp_path: Path) -> None:
    write_store(tmp_path / "features", tiny.source(), [IMAGE])
    (tmp_path / "photos").mkdir()
    Image.new("RGB", (64, 48), "green").save(tmp_path / "photos" / IMAGE.image_id)
    bigru(views=2, visual_pooling="gpo").save_pretrained(tmp_path / "model")
    out = tmp_path / "attention.png"
    known = [str(tmp_path / "model"), "--features", str(tmp_path / "features"), "--out", str(out)]
    own = ["--image", IMAGE.image_id]
    photos = ["--photos", str(tmp_path / "photos")]

    def run(*more: str) -> BaseException | None:
        return CliRunner().invoke(cli, ["figure", "attention", *known, *more]).exception

    assert run(*own, *photos, "--caption", "a dog") is None
    assert out.read_bytes().startswith(b"\x89PNG")
    data = json.loads(out.with_suffix(".json").read_text())
    assert len(data["similarity"]) == 2 and list(data["captions"]) == ["a dog"]
    for more, message in (
        (own, "does not name a folder of photos: give --photos"),
        (["--image", "b.jpg", *photos], "--image 'b.jpg' is not in"),
    ):
        error = run(*more)
        assert isinstance(error, InputError) and message in str(error)
