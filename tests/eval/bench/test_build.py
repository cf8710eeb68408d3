"""What a build takes: the figures are of the index that is built and removed."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from indexer.build import build_index
from indexer.settings import PruningSettings
from sparta.features.store import FeatureStore
from tests import towers_speed
from tests.build_speed import main, measure_build, watch
from tests.needs import linux
from tests.server.fake import DRAWINGS, draw

FAMILY = """
import subprocess, sys
kept = bytearray(40_000_000)
if len(sys.argv) > 1:
    subprocess.run([sys.executable, "-c", sys.argv[1]], check=True)
else:
    import time
    time.sleep(1.5)
"""


def stages(record: dict[str, Any]) -> list[str]:
    return [one["name"] for one in record["stages"]]


def test_from_photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    photos, work, out = draw(tmp_path / "photos"), tmp_path / "work", tmp_path / "build.json"
    work.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(work))
    words = ["build_speed", str(photos), "--model", "sample", "--out", str(out)]
    monkeypatch.setattr("sys.argv", words)
    main()
    found = json.loads(out.read_text())
    assert found["images"] == len(DRAWINGS)
    assert stages(found) == ["extraction", "encoding", "index", "all"]
    seconds = [one["seconds"] for one in found["stages"]]
    assert min(seconds) > 0 and seconds[-1] == pytest.approx(sum(seconds[:-1]))
    for one in found["stages"]:
        assert one["images_per_second"] == pytest.approx(len(DRAWINGS) / one["seconds"])
    assert all(found["bytes"][part] > 0 for part in ("features", "lucene", "segments", "other"))
    assert not list(work.iterdir())


def test_from_features(tmp_path: Path, models: list[Path], views: list[FeatureStore]) -> None:
    store, model, pruning = views[0], str(models[0]), PruningSettings(top_n=3)
    found = measure_build(store.folder, model, pruning=pruning).record()
    built = build_index([store], [model], tmp_path / "index", pruning)
    assert (found["images"], found["postings"]) == (21, built.postings)
    assert found["top_n"] == 3 and found["model"] == models[0].name
    assert stages(found) == ["encoding", "index", "all"]


SMALL: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 1, "intermediate_size": 32}
SMALL |= {"num_attention_heads": 2, "image_size": 64, "patch_size": 8}


CONVOLUTIONS = {"width_coefficient": 0.25, "depth_coefficient": 0.2, "image_size": 64}
KINDS: list[tuple[str, dict[str, Any]]] = [
    ("CLIP", {"vision_config": SMALL}),
    ("Siglip", {"vision_config": SMALL}),
    ("Align", {"vision_config": CONVOLUTIONS, "projection_dim": 80}),
]


@pytest.mark.parametrize(("kind", "options"), KINDS)
def test_towers_beside_torch(
    kind: str, options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(towers_speed.SIZES, "small", (kind, options))
    monkeypatch.setattr(towers_speed, "computes_bfloat16", lambda _: True)
    photos, work = draw(tmp_path / "photos"), tmp_path / "work"
    work.mkdir()
    rates = towers_speed.measure(photos, ["small"], 3)["small"]
    ours, *others = rates
    assert min(rates.values()) > 0
    assert ours.startswith("OpenVINO ") and "torch bfloat16, 32 at once" in others
    towers_speed.random_encoder("small", work / "encoder", text_layers=1)
    first, *rest = towers_speed._ways(work).values()
    pixels = np.random.default_rng(0).integers(0, 256, (2, 64, 64, 3), np.uint8)
    vectors = first.encode(pixels)[0].astype(np.float32)
    assert np.linalg.norm(vectors, axis=-1) == pytest.approx(1, abs=0.01)
    for one in rest:
        assert (one.encode(pixels)[0] * vectors).sum(axis=-1).min() > 0.99


@linux
def test_a_process_counts_with_all_below_it() -> None:
    process = subprocess.Popen([sys.executable, "-c", FAMILY, FAMILY])
    with process, watch(process.pid) as peak:
        assert process.wait() == 0
    assert peak.bytes is not None
    assert 80e6 < peak.bytes < 400e6
