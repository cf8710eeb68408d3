"""The built wheel, installed into a new environment and used outside the repository."""

import json
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.packaging.environments import ROOT, Environment

pytestmark = [pytest.mark.packaging, pytest.mark.timeout(900)]

ROOMS = ["sparta", "indexer", "server", "training", "eval"]
DATA = [
    "eval/bench/*.lua",
    "server/page/*.*",
    "server/page/write/*",
    "server/publish/search/*",
    "server/publish/site/*",
    "sparta/__init__.pyi",
    "sparta/py.typed",
    "sparta/visualsparta/shipped/**/*",
    "training/presets/**/*.yaml",
]


def test_holds_every_module_and_data_file_and_no_test(wheel: Path) -> None:
    files = {path for room in ROOMS for path in (ROOT / room).rglob("*.py")}
    files |= {path for pattern in DATA for path in ROOT.glob(pattern) if path.is_file()}
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {path.relative_to(ROOT).as_posix() for path in files} <= names
    assert {name.partition("/")[0] for name in names if ".dist-info/" not in name} == {*ROOMS}


def test_has_the_one_version(installed: Environment, tmp_path: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert installed.run(tmp_path, "--version") == f"sparta {project['version']}\n"


def test_answers_the_demos_query(installed: Environment, demo: Path) -> None:
    lines = (demo / "scenes" / "captions.jsonl").read_text().splitlines()
    captions = {row["image"]: row["captions"] for row in map(json.loads, lines)}
    query = "hot air balloons above the mountains"
    table = installed.run(demo, "search", "index", query, "-k", "1")
    found = next(captions[image] for image in captions if Path(image).name in table)
    assert any("balloon" in caption for caption in found)


def test_searches_a_folder_of_photos(installed: Environment, tmp_path: Path, shared: Path) -> None:
    lines = (shared / "photos" / "captions.jsonl").read_text().splitlines()
    photos = [json.loads(line)["image"] for line in lines if '"val"' in line][:40]
    (tmp_path / "photos").mkdir()
    for photo in photos:
        (tmp_path / "photos" / photo).symlink_to(shared / "photos" / "images" / photo)
    installed.run(tmp_path, "index", "photos", "--out", "index")
    table = installed.run(tmp_path, "search", "index", "a dog runs through the water", "-k", "1")
    assert any(photo in table for photo in photos)
