"""`sparta import-immich`, and the index of what it downloads."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from indexer.build import build_index
from indexer.metadata import read_metadata
from indexer.search.open import open_index
from sparta.command_line import cli
from sparta.features.extract.job import extract_photos
from sparta.features.store import FeatureStore
from sparta.visualsparta.model import VisualSparta
from tests.sparta.immich.stub import KEY, StubAsset, StubImmich, asset_id, picture, running


def test_hits_have_the_ids_and_the_metadata_of_immich(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assets = {
        asset_id(number): StubAsset(f"{colour}.jpg", b"", picture(colour), exif={"city": "Lisbon"})
        for number, colour in enumerate(["green", "blue"])
    }
    bare = StubAsset("bare.jpg", b"", None)
    monkeypatch.setenv("IMMICH_API_KEY", KEY)
    out = tmp_path / "immich"
    with running(StubImmich({**assets, asset_id(9): bare}).app()) as address:
        done = CliRunner().invoke(cli, ["import-immich", address, "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert "2 photos, 2 downloaded, 0 removed; 1 could not be used: see" in done.output

    source = VisualSparta.from_pretrained("sample").config.feature_source
    assert source is not None
    size = source["image_size"]
    features = tmp_path / "features"
    extract_photos(out / "photos", features, "pixels", image_size=size, workers=0, device="cpu")
    metadata = read_metadata(out / "metadata.jsonl")
    stores = [FeatureStore.open(features)]
    build_index(stores, ["sample"], tmp_path / "index", metadata=metadata, device="cpu")
    for engine in ("lucene", "columns"):
        searcher = open_index(tmp_path / "index", engine)
        for id, asset in assets.items():
            found = searcher.metadata(f"{id}.jpg")
            assert (found["immich_id"], found["name"], found["city"]) == (id, asset.name, "Lisbon")
            assert (found["width"], found["height"]) == (96, 64)
        searcher.close()


def test_a_key_is_needed(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["import-immich", "http://a.example", "--out", str(tmp_path)])
    assert done.exit_code == 1
    assert "set IMMICH_API_KEY to an API key of immich" in str(done.exception)
