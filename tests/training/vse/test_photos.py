"""Training with a vision network inside the model, on drawn photos of two colours each."""

import json
import logging
from dataclasses import dataclass
from itertools import chain, permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

from sparta.captions.read import read_captions
from sparta.command_line import cli
from sparta.errors import InputError
from sparta.vse.batch import PixelBatch, RegionBatch
from sparta.vse.encoders import vision_source
from sparta.vse.model import VseModel
from tests.bad_paths import add_bad_paths
from tests.sparta.extract.tiny_networks import NETWORKS, SIDE, save
from tests.training.corpus import ON_CPU
from tests.training.test_fit import assert_resumes, metrics
from training.fit import _strategy, train
from training.vse.config import VseTrainConfig
from training.vse.data import draw_crop, open_photos
from training.vse.module import VseTraining, build_model

COLOURS = {
    "red": (220, 30, 30),
    "green": (30, 200, 30),
    "blue": (30, 30, 220),
    "white": (250, 250, 250),
    "black": (5, 5, 5),
}


@dataclass(frozen=True)
class Drawn:
    """Twenty photos with two captions each, and vision networks."""

    photos: Path
    captions: Path
    networks: Path

    def config(self, network: str = "resnet", **changes: Any) -> VseTrainConfig:
        data = {"photos": self.photos, "captions": self.captions, "validation_photos": 0}
        options = {"dimension": 16, "word_dim": 8, "vision": str(self.networks / network)}
        values = {
            "model": {"options": options, "min_count": 1},
            "augmentation": {"regions": "grid-flat", "photos": "crop", "words": 0.1},
        }
        rates = {"batch_size": 10, "epochs": 2, "learning_rate": 1e-2, "vision_rate": 0.1}
        values = ON_CPU | values | rates | changes
        return VseTrainConfig.model_validate(values | {"data": data | changes.get("data", {})})


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Drawn:
    folder = tmp_path_factory.mktemp("drawn")
    (folder / "photos").mkdir()
    lines = []
    for above, below in permutations(COLOURS, 2):
        photo = Image.new("RGB", (48, 40), COLOURS[above])
        photo.paste(COLOURS[below], (0, 20, 48, 40))
        name = f"{above}-{below}.png"
        photo.save(folder / "photos" / name)
        texts = [f"{above} over {below}", f"a {below} floor and a {above} wall"]
        lines.append(json.dumps({"image": name, "captions": texts}) + "\n")
    (folder / "captions.jsonl").write_text("".join(lines))
    for name in ("resnet", "vit"):
        save(NETWORKS[name](), folder / name)
    return Drawn(folder / "photos", folder / "captions.jsonl", folder)


# ---- examples -----------------------------------------------------------------------------------


def test_a_crop_keeps_its_shape_and_most_of_the_photo() -> None:
    crops = [draw_crop(np.random.default_rng(seed)) for seed in range(500)]
    boxes = np.array([box for box, _ in crops])
    sides = boxes[:, 2:] - boxes[:, :2]
    np.testing.assert_allclose(sides[:, 0], sides[:, 1])
    assert 0 <= boxes.min() < 0.01 and 0.99 < boxes.max() <= 1
    assert 0.6 <= sides.min() < 0.62 and 0.98 < sides.max() <= 1
    assert 200 < sum(mirrored for _, mirrored in crops) < 300


# ---- which photos -------------------------------------------------------------------------------


def test_photos_that_cannot_be_read_are_left_out_and_listed(
    drawn: Drawn, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    photos = tmp_path / "photos"
    photos.mkdir()
    for name in ("red-blue.png", "blue-red.png"):
        (photos / name).write_bytes((drawn.photos / name).read_bytes())
    (photos / "broken.png").write_bytes(b"no photo")
    config = drawn.config(data={"photos": photos})
    with caplog.at_level(logging.WARNING):
        folder = open_photos(config, tmp_path)
    assert folder.ids == ["blue-red.png", "red-blue.png"]
    assert f"1 photos could not be used: see {tmp_path / 'skipped.jsonl'}" in caplog.text
    (line,) = (tmp_path / "skipped.jsonl").read_text().splitlines()
    reason = "not an image, or of an unknown format"
    assert json.loads(line) == {"image_id": "broken.png", "reason": reason}
    reasons = add_bad_paths(photos)
    assert open_photos(config, tmp_path).ids == folder.ids
    assert len((tmp_path / "skipped.jsonl").read_text().splitlines()) == 1 + len(reasons)
    for name in folder.ids:
        (photos / name).write_bytes(b"")
    with pytest.raises(InputError, match="no photo could be used"):
        open_photos(config, tmp_path)


# ---- runs ---------------------------------------------------------------------------------------


def vision_of(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: value for name, value in state.items() if name.startswith("vision.")}


@pytest.mark.parametrize("network", ["resnet", "vit"])
def test_the_network_is_frozen_first_and_learns_then(
    drawn: Drawn, tmp_path: Path, network: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts: list[dict[str, torch.Tensor]] = []
    modes: list[tuple[int, bool, bool]] = []
    learning: set[str] = set()
    begin, step = VseTraining.on_train_epoch_start, VseTraining.training_step

    def beginning(self: VseTraining) -> None:
        starts.append({name: value.clone() for name, value in self.model.state_dict().items()})
        begin(self)

    def stepping(self: VseTraining, batch: Any, number: int) -> torch.Tensor:
        vision = self.model.vision
        assert vision is not None
        learning.update(name for name, _ in self.model.named_parameters())
        learns = [parameter.requires_grad for parameter in vision.parameters()]
        assert all(learns) or not any(learns)
        assert self.model.visual_projections.training
        norms = [m for m in vision.modules() if isinstance(m, torch.nn.BatchNorm2d)]
        assert not any(norm.training for norm in norms)
        modes.append((self.current_epoch, vision.training, all(learns)))
        return step(self, batch, number)

    monkeypatch.setattr(VseTraining, "on_train_epoch_start", beginning)
    monkeypatch.setattr(VseTraining, "training_step", stepping)
    train(drawn.config(network, epochs=3, data={"validation_photos": 5}), tmp_path)
    assert set(modes) == {(0, False, False), (1, True, True), (2, True, True)}
    first, second, third = starts
    for name, value in vision_of(first).items():
        assert torch.equal(value, vision_of(second)[name]), name
        moves = name in learning and "pooler" not in name  # which has no part in the cells
        assert torch.equal(value, vision_of(third)[name]) is not moves, name
    for name in first.keys() - vision_of(first).keys():
        if name in learning:
            assert not torch.equal(first[name], second[name]), name


@pytest.mark.parametrize(("network", "vectors"), [("resnet", 16), ("vit", 17)])
def test_vectors_of_the_network_are_dropped_in_training_alone(
    drawn: Drawn, tmp_path: Path, network: str, vectors: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GPO section 3.3: every photo of every step loses a fifth of its cells or patches."""
    pooled: dict[bool, list[list[int]]] = {True: [], False: []}
    encode = VseModel.encode_images

    def encoding(self: VseModel, images: Any) -> torch.Tensor:
        batch = images if isinstance(images, RegionBatch) else self.look(images)
        pooled[self.visual_projections.training].append(batch.lengths.tolist())
        return encode(self, images)

    monkeypatch.setattr(VseModel, "encode_images", encoding)
    options = {"dimension": 16, "word_dim": 8, "vision_vectors": "output"}
    options["vision"] = str(drawn.networks / network)
    changes: dict[str, Any] = {"model": {"options": options, "min_count": 1}}
    train(drawn.config(network, data={"validation_photos": 5}, **changes), tmp_path / "run")
    trained = [length for lengths in pooled[True] for length in lengths]
    assert len(trained) == 2 * 3 * 10
    assert 0.75 < sum(trained) / len(trained) / vectors < 0.85
    assert len({tuple(lengths) for lengths in pooled[True]}) == 6  # drawn anew at each step
    assert {length for lengths in pooled[False] for length in lengths} == {vectors}


WHOLE, RISING = [1.0] * 4, [0.0, 0.25, 0.5, 0.75]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, [WHOLE, RISING, WHOLE]),
        ({"vision_frozen_epochs": 0}, [RISING, WHOLE, WHOLE]),
        ({"vision_warm_up": False}, [WHOLE] * 3),
        ({"vision_rate": 0}, [WHOLE] * 3),
    ],
)
def test_the_loss_rises_in_the_first_epoch_of_the_network(
    drawn: Drawn,
    tmp_path: Path,
    changes: dict[str, Any],
    expected: list[list[float]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As in VSE∞'s published training: step i of n counts i/n."""
    losses: list[float] = []
    step = VseTraining.training_step

    def stepping(self: VseTraining, batch: Any, number: int) -> torch.Tensor:
        loss = step(self, batch, number)
        losses.append(float(loss))
        return loss

    def constant(_: VseTraining, similarities: torch.Tensor, different: torch.Tensor) -> Any:
        return 1 + 0 * similarities.sum()

    monkeypatch.setattr(VseTraining, "_objective", constant)
    monkeypatch.setattr(VseTraining, "training_step", stepping)
    train(drawn.config(epochs=3, **changes), tmp_path)
    assert losses == pytest.approx([*chain(*expected)], abs=1e-5)


def test_a_run_on_photos_learns(drawn: Drawn, tmp_path: Path) -> None:
    config = drawn.config(epochs=12, objective={"warm_up_epochs": 99}, milestones=[10])
    result = train(config, tmp_path)
    losses = metrics(tmp_path, "loss")
    assert losses[-1] < 0.5 * losses[0]
    source = VseModel.from_pretrained(result.model).config.feature_source
    assert source is not None and source["extra"] == {"resample": 3}


def test_a_run_resumes_and_is_measured_on_the_photos_it_held_out(
    drawn: Drawn, tmp_path: Path
) -> None:
    config = drawn.config(epochs=3, data={"validation_photos": 10})
    result, _ = assert_resumes(config, tmp_path, VseTraining)
    arguments = ["eval", "model", str(tmp_path / "unbroken"), "--device", "cpu", "--json"]
    found = json.loads(CliRunner().invoke(cli, arguments, catch_exceptions=False).stdout)
    ways = ("text_to_image", "image_to_text")
    recall = [found[way][f"at_{k}"] for way in ways for k in (1, 5, 10)]
    assert found["images"] == 10
    assert sum(recall) / 6 == pytest.approx(sum(result.recall.values()), abs=2)


@pytest.mark.parametrize("network", ["resnet", "vit"])
def test_a_run_at_another_size(
    drawn: Drawn, tmp_path: Path, network: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GPO section 5.1: training, validation and every later use see photos of that size."""
    seen: list[int] = []
    look = VseModel.look

    def looking(self: VseModel, photos: PixelBatch) -> RegionBatch:
        seen.extend(photos.pixels.shape[2:])
        return look(self, photos)

    monkeypatch.setattr(VseModel, "look", looking)
    data = {"image_size": 2 * SIDE, "validation_photos": 5}
    result = train(drawn.config(network, epochs=1, data=data), tmp_path)
    assert {*seen} == {2 * SIDE}
    seen.clear()
    arguments = ["eval", "model", str(tmp_path), "--device", "cpu", "--json"]
    found = json.loads(CliRunner().invoke(cli, arguments, catch_exceptions=False).stdout)
    assert {*seen} == {2 * SIDE} and found["images"] == 5
    source = VseModel.from_pretrained(result.model).config.feature_source
    assert source is not None and source["image_size"] == 2 * SIDE


# ---- rates --------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [0.0, 0.01])
def test_the_network_learns_at_its_own_rate(drawn: Drawn, tmp_path: Path, rate: float) -> None:
    config = drawn.config(vision_rate=rate, vision_frozen_epochs=0)
    source = vision_source(config.model.options["vision"])
    made = VseTraining(build_model(config.model, source, read_captions(drawn.captions)), config)
    assert made.model.vision is not None
    own = list(made.model.vision.parameters())
    slow = {id(p) for g in made._groups() if g["lr"] == pytest.approx(1e-4) for p in g["params"]}
    assert slow == ({id(parameter) for parameter in own} if rate else set())
    assert {parameter.requires_grad for parameter in own} == {rate > 0}
    before = vision_of(made.model.state_dict())
    after = vision_of(VseModel.from_pretrained(train(config, tmp_path).model).state_dict())
    assert all(torch.equal(before[name], after[name]) for name in before) is (rate == 0)


def test_several_processes_expect_a_network_without_gradient(drawn: Drawn) -> None:
    assert _strategy(drawn.config(devices=2)) == "ddp_find_unused_parameters_true"
    assert _strategy(drawn.config(devices=1)) == "auto"
    assert _strategy(drawn.config(devices=2, model={})) == "auto"
