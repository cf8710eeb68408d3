"""The photo benchmark: figures for every stage, from the command as a user runs it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from PIL import Image
from transformers import CLIPVisionConfig
from typer.testing import CliRunner

from eval.bench.photos import clip_tower, measure, stages
from eval.bench.photos.end_to_end import EndToEnd, index_photos
from eval.bench.photos.inputs import PhotoSet
from eval.bench.photos.photo_speed import MeasuredSet
from eval.commands.bench.photos import use_cores
from sparta.command_line import cli
from sparta.errors import InputError


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    folder.mkdir()
    for number in range(3):
        Image.new("RGB", (60, 40), (80 * number, 40, 200)).save(folder / f"{number}.jpg")
    return folder


def test_every_stage_has_a_figure(
    photos: Path, models: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = CLIPVisionConfig(
        hidden_size=32, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2
    )
    monkeypatch.setattr(clip_tower, "CLIPVisionConfig", lambda: config)
    monkeypatch.setattr(measure, "INDEXED", 40)
    monkeypatch.setattr(stages, "NETWORK_PHOTOS", 16)
    out = tmp_path / "photos.json"
    command = ["bench", "photos", str(photos), "--model", str(models[0]), "--top-n", "5"]
    run = CliRunner().invoke(cli, [*command, "--work", str(tmp_path), "--out", str(out)])
    assert run.exit_code == 0, run.output
    record = json.loads(out.read_text())
    (measured,) = record["sets"]
    assert (measured["name"], measured["whole"]["photos"]) == ("photos", 3)
    assert measured["photos_per_second"] == pytest.approx(3 / measured["whole"]["seconds"])
    assert 0 < measured["whole"]["extract_seconds"] < measured["whole"]["seconds"]
    found = {(rate["stage"], rate["photos"]) for rate in record["rates"]}
    assert found == {
        ("decoding", "photos"),
        ("backbone", "any"),
        ("transformer", "any"),
        ("transformer, torch", "any"),
        ("pruning and Lucene", "any"),
        ("columns", "any"),
        ("CLIP ViT-B/32, torch", "any"),
        ("decoding and CLIP", "photos"),
    }
    assert all(rate["photos_per_second"] > 0 for rate in record["rates"])
    table = out.with_suffix(".md").read_text()
    assert "| sparta index" in table and "photos: 3 photos of" in table
    assert list(tmp_path.glob("tmp*")) == []


def test_a_failing_command_is_reported(photos: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"sparta index .* failed: .*no-such-model"):
        index_photos(PhotoSet.of(photos), "no-such-model", tmp_path / "index", None)


def test_memory_may_be_unknown() -> None:
    assert "unknown" in str(MeasuredSet("a", 1.0, EndToEnd(10, 2.0, 1.0, None)))


def test_cores_are_restricted(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen: list[list[int]] = []
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 5}, raising=False)
    monkeypatch.setattr(
        os, "sched_setaffinity", lambda _, cores: chosen.append(cores), raising=False
    )
    assert use_cores(None) == 2
    assert use_cores(1) == 1
    assert chosen == [[3, 5], [3]]
    with pytest.raises(InputError, match="--cores 3: this process may use 2"):
        use_cores(3)
    monkeypatch.delattr(os, "sched_setaffinity")
    assert use_cores(None) == os.cpu_count()
    with pytest.raises(InputError, match="--cores needs Linux"):
        use_cores(1)
