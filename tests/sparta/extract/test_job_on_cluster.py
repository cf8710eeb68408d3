"""Features that the workers of a cluster extract are those of a single process, to the byte."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from sparta.cluster import Cluster, connected
from sparta.command_line import cli
from sparta.errors import InputError
from sparta.extract import job
from sparta.extract.extractor import load_extractor
from sparta.extract.job import PhotoWorker, extract_on, extract_photos
from sparta.extract.photos import Augmentation
from tests.bad_paths import add_bad_paths
from tests.s3_server import upload
from tests.sparta.extract.test_job import contents

OPTIONS: dict[str, Any] = {"image_size": 32, "batch_size": 3, "workers": 1}

KILLED = """
import os, signal, sys
from pathlib import Path
from sparta.cluster import connected
from sparta.extract import job

def die(stage, done, total):
    if done > 4:
        os.kill(os.getpid(), signal.SIGKILL)

job.SHARD_SIZE = 4
photos, out = map(Path, sys.argv[1:3])
with connected(sys.argv[3]) as cluster:
    options = {"image_size": 32, "batch_size": 3, "workers": 1}
    job.extract_photos(photos, out, "pixels", cluster=cluster, progress=die, **options)
"""


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Ten photos, one of them broken."""
    folder = tmp_path / "photos"
    folder.mkdir()
    for i in range(10):
        noise = np.random.default_rng(i).integers(0, 256, (20, 30, 3), np.uint8)
        Image.fromarray(noise).save(folder / f"{i:02d}.png")
    (folder / "05.png").write_text("broken")
    return folder


class Here(Cluster):
    """A cluster of this process."""

    def __init__(self) -> None:
        pass

    def map(self, open_tool: Any, work: Any, units: Any) -> Any:
        tool = open_tool()
        yield from (work(tool, unit) for unit in units)


HERE = Here()


def test_after_kill_9_of_the_driver_the_rest_is_extracted(
    ray_nodes: Any, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job, "SHARD_SIZE", 4)
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    extract_photos(photos, whole, "pixels", **OPTIONS)
    arguments = [str(photos), str(killed), ray_nodes.address]
    run = subprocess.run([sys.executable, "-c", KILLED, *arguments], check=False)
    assert run.returncode == -signal.SIGKILL
    monkeypatch.chdir(tmp_path)  # of the workers too
    with connected(ray_nodes.address) as cluster:
        report = extract_photos(
            Path("photos"), Path("killed"), "pixels", cluster=cluster, **OPTIONS
        )
    assert (report.images, report.skipped, report.reused) == (9, 1, 4)
    found, right = contents(killed), contents(whole)
    assert found.keys() == right.keys()
    assert {name for name in found if found[name] != right[name]} <= {"store.json"}  # its paths


def test_the_command_reads_photos_of_a_bucket(ray_nodes: Any, photos: Path, tmp_path: Path) -> None:
    address = upload(photos, "photos")
    for name, places in (("one", [str(photos)]), ("many", [address, "--ray", ray_nodes.address])):
        arguments = ["--backbone", "pixels", "--image-size", "32", "--out", str(tmp_path / name)]
        run = CliRunner().invoke(cli, ["extract", *places, *arguments])
        assert run.exit_code == 0, run.output
        assert "1 photos could not be used" in run.output
    one, many = contents(tmp_path / "one"), contents(tmp_path / "many")
    header = json.loads(many["store.json"])
    assert header["photos"] == address
    assert header["inputs"] == json.loads(one["store.json"])["inputs"]
    equal = [*(shard["file"] for shard in header["shards"]), "skipped.jsonl"]
    assert [many[name] for name in equal] == [one[name] for name in equal]


def test_a_machine_without_the_photos_is_named(photos: Path) -> None:
    extractor = load_extractor("pixels", None, 32)
    worker = PhotoWorker(extractor, photos, Augmentation("plain"), 0)
    found = extract_on(HERE, worker, lambda: load_extractor("pixels", None, 32), [[["x.png"]]])
    with pytest.raises(InputError, match=r"photos has none of the photos: give a folder"):
        list(found)


def test_other_features_than_the_drivers_are_refused(photos: Path) -> None:
    worker = PhotoWorker(load_extractor("pixels", None, 32), photos, Augmentation("plain"), 0)
    found = extract_on(HERE, worker, lambda: load_extractor("pixels", None, 64), [[["00.png"]]])
    with pytest.raises(InputError, match=r"the features would be others .*: image_size: 3"):
        list(found)


def test_unreadable_paths(photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "SHARD_SIZE", 1)
    reasons = add_bad_paths(photos)
    report = extract_photos(photos, tmp_path / "out", "pixels", cluster=HERE, **OPTIONS)
    assert (report.images, report.skipped) == (9, 1 + len(reasons))
