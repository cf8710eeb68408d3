"""What is known of photos that an index was built from."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from indexer.update.metadata import update_metadata
from indexer.update.sync.job import as_built
from indexer.update.sync.scan import scan_photos


@pytest.mark.parametrize("features", ["there", "gone", "of another folder", "of another build"])
def test_photos_of_the_build(built: Path, photos: Path, features: str) -> None:
    folder = built.with_name("index.features")
    header = folder / "plain" / "store.json"
    if features == "gone":
        shutil.rmtree(folder)
    elif features != "there":
        wrong = {"of another folder": {"photos": "/"}, "of another build": {"fingerprint": "x"}}
        header.write_text(json.dumps(json.loads(header.read_text()) | wrong[features]))
    recorded = features == "there"
    shutil.copy2(photos / "0.png", photos / "new.png")  # which the index does not have
    os.utime(photos / "1.png", ns=(0, 2**62))
    (photos / "2.png").write_bytes(b"other content")
    os.utime(photos / "2.png", ns=(0, 0))
    scan = scan_photos(photos)
    seen = as_built(built, photos, scan).photos
    same = [one for one, stamp in scan.photos.items() if one in seen and seen[one].stamp == stamp]
    assert same == ["0.png", "1.png"]
    assert sorted(seen) == ["0.png", "1.png", "2.png"][: 3 if recorded else 2]
    assert all(one.sha256 is None and one.problem is None for one in seen.values())


def test_photos_without_a_size_are_known_by_their_time(built: Path, photos: Path) -> None:
    shutil.rmtree(built.with_name("index.features"))
    update_metadata(built, {f"{number}.png": {"bytes": None} for number in range(3)})
    os.utime(photos / "0.png", ns=(0, 0))
    os.utime(photos / "1.png", ns=(0, 2**62))
    assert "0.png" in as_built(built, photos, scan_photos(photos)).photos
    assert "1.png" not in as_built(built, photos, scan_photos(photos)).photos


def test_photos_that_could_not_be_used_are_known(built: Path, photos: Path) -> None:
    (photos / "bad.png").write_text("bad")
    features = built.with_name("index.features")
    [stamps] = (features / "plain").glob("stamps-*.json")
    stamps.write_text(json.dumps(json.loads(stamps.read_text()) | {"bad.png": [3, 1]}))
    (features / "plain" / "skipped.jsonl").write_text(
        json.dumps({"image_id": "bad.png", "reason": "not an image"})
    )
    found = as_built(built, photos, scan_photos(photos)).photos["bad.png"]
    assert (found.problem, found.stamp.bytes) == ("not an image", 3)
