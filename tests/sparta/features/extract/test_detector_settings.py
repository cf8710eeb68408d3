from dataclasses import asdict

import numpy as np
import pytest

from sparta.features.extract.detector_settings import DetectorSettings, extract_command
from sparta.features.record import FeatureSource

EXTRA = {"detector": "hash", "size": {}, "regions": 7, "threshold": 0.25, "colours": True}
DETECTED = FeatureSource("region", "", "", 16, 0, 0, EXTRA, "some/detr")
POOLED = FeatureSource("region", "a/resnet", "abc", 8, 64, 2, EXTRA, "some/detr")


@pytest.mark.parametrize(
    ("regions", "threshold", "rows"),
    [(9, 0.0, [2, 1, 3, 0]), (2, 0.0, [2, 1]), (9, 0.5, [2, 1, 3]), (1, 0.5, [2]), (9, 0.95, [])],
)
def test_keeps_the_surest(regions: int, threshold: float, rows: list[int]) -> None:
    confidences = np.array([0.25, 0.5, 0.75, 0.5], np.float32)
    kept = DetectorSettings("", regions, threshold).kept(confidences)
    assert kept.tolist() == rows


def test_is_read_back_from_a_source() -> None:
    for source in (DETECTED, POOLED, FeatureSource(**asdict(POOLED))):
        assert DetectorSettings.of(source) == DetectorSettings("some/detr", 7, 0.25, True)
    assert DetectorSettings.of(FeatureSource("region", "vinvl", "vinvl", 2048, 0)) is None


def test_the_command_that_makes_features_of_a_source() -> None:
    chosen = "sparta extract PHOTOS --detector some/detr --regions 7 --threshold 0.25 --colours"
    assert extract_command(DETECTED) == chosen
    assert extract_command(POOLED) == f"{chosen} --backbone a/resnet --image-size 64 --labels 2"
    grid = FeatureSource("grid", "a/resnet", "abc", 8, 64, 2)
    assert (
        extract_command(grid)
        == "sparta extract PHOTOS --backbone a/resnet --image-size 64 --labels 2"
    )
    assert "files of vinvl" in extract_command(FeatureSource("region", "vinvl", "v", 2048, 0))


def test_names_of_networks_decide_nothing() -> None:
    other = {"backbone": "elsewhere/resnet", "detector": "elsewhere/detr"}
    assert POOLED.differences(FeatureSource(**asdict(POOLED) | other)) == []
    lower = asdict(POOLED) | {"extra": EXTRA | {"threshold": 0.2}}
    assert POOLED.differences(FeatureSource(**lower))[0].startswith("extra: ")
