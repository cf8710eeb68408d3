"""Photos are indexed in bfloat16 where the processor has it, and an index keeps its precision."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from indexer.build import build_index
from indexer.encoding.features import open_images, opened_stores
from indexer.maintenance.info import index_info
from indexer.update.images import ResidentEncoder, add_images
from sparta.errors import InputError
from sparta.features.record import BFLOAT16, FLOAT32
from sparta.model_id import SAMPLE
from sparta.networks import load

MODELS = ["photos"]


def photos_of(folder: Path, first: int, last: int) -> Path:
    folder.mkdir()
    for path in sorted((SAMPLE / "photos").iterdir())[first:last]:
        shutil.copy(path, folder)
    return folder


def build(photos: Path, out: Path, bfloat16: bool = True, keep: bool = False) -> Path:
    images = open_images([photos], MODELS, out, keep_features=keep, device="cpu", bfloat16=bfloat16)
    build_index(images, MODELS, out, device="cpu")
    return out


def able(monkeypatch: pytest.MonkeyPatch, answer: bool) -> None:
    """Whether the processor is said to have bfloat16; OpenVINO itself falls back to float32."""
    monkeypatch.setattr(load, "computes_bfloat16", lambda device: answer)


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An index in bfloat16."""
    able(monkeypatch, True)
    return build(photos_of(tmp_path / "photos", 0, 4), tmp_path / "index")


def test_an_index_names_the_precision_of_the_processor_or_the_user(
    monkeypatch: pytest.MonkeyPatch, index: Path
) -> None:
    assert index_info(index).precision == BFLOAT16
    photos, exact = index.parent / "photos", index.parent / "exact"
    assert index_info(build(photos, exact, bfloat16=False)).precision == FLOAT32
    able(monkeypatch, False)
    other = build(photos, index.parent / "other", keep=True)
    assert index_info(other).precision == FLOAT32
    able(monkeypatch, True)
    assert index_info(build(photos, other)).precision == FLOAT32, "the features beside it are kept"


def test_features_in_another_precision_are_not_mixed_with_a_store_s(
    monkeypatch: pytest.MonkeyPatch, index: Path
) -> None:
    build(index.parent / "photos", index, keep=True)
    able(monkeypatch, False)
    photos_of(index.parent / "photos" / "new", 4, 6)
    with pytest.raises(InputError, match="precision: 'float32' against 'bfloat16'"):
        build(index.parent / "photos", index)


@pytest.mark.parametrize("here", [True, False])
def test_photos_are_added_in_the_index_s_precision_or_with_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, index: Path, here: bool
) -> None:
    able(monkeypatch, here)
    more = photos_of(index.parent / "more", 4, 5)
    with opened_stores(index, [more], [], MODELS, "cpu") as (stores, _):
        assert stores[0].source.precision == (BFLOAT16 if here else FLOAT32)
        add_images(index, stores, MODELS, device="cpu")
    ResidentEncoder(index, MODELS, "cpu").photo("sent.jpg", next(more.iterdir()))
    told = [
        record for record in caplog.messages if "in bfloat16, added photos in float32" in record
    ]
    assert len(told) == (0 if here else 2)


def test_photos_are_added_to_an_index_in_float32_as_they_were(
    monkeypatch: pytest.MonkeyPatch, index: Path
) -> None:
    exact = build(index.parent / "photos", index.parent / "exact", bfloat16=False)
    found = []
    for answer in (True, False):
        able(monkeypatch, answer)
        with opened_stores(exact, [index.parent / "photos"], [], MODELS, "cpu") as (stores, _):
            found.append(stores[0][0].features)
    np.testing.assert_array_equal(found[0], found[1])
