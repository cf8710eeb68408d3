"""The built wheel, installed into new environments and used outside the repository.

The default dependencies index, search, serve and publish; every other command names its extra.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import urllib.parse
import urllib.request
import venv
import zipfile
from pathlib import Path

import pytest

from sparta.extras import EXTRAS
from sparta.model_id import SAMPLE
from tests.scenes.corpus import write_scenes
from tests.without_extras import OUTCOMES, check, prepare

pytestmark = [
    pytest.mark.packaging,
    pytest.mark.timeout(900),
    pytest.mark.needs("C compiler"),
]

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
QUERY = "hot air balloons above the mountains"
ELEPHANT = "an elephant in the desert"
ROOMS = ["sparta", "indexer", "server", "training", "eval"]
DATA = [
    "eval/tables.yaml",
    "server/page/*.*",
    "server/page/write/*",
    "server/publish/search/*",
    "server/publish/site/*",
    "sparta/__init__.pyi",
    "sparta/py.typed",
    "sparta/visualsparta/shipped/**/*",
    "training/presets/**/*.yaml",
]

# A new environment must find nothing of this checkout.
VARIABLES = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


class Environment:
    """A virtual environment; it has no pip, the one that runs the tests serves it.

    Attributes:
        folder: of the environment.
        site: its site-packages.
    """

    def __init__(self, folder: Path) -> None:
        venv.create(folder, with_pip=False)
        self.folder = folder
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        self.site = folder / "lib" / version / "site-packages"

    def borrow_dependencies(self) -> None:
        """Let it import what the environment that runs the tests has installed.

        Nothing that is installed editable comes along: a path file read from a path file adds
        nothing.
        """
        (self.site / "borrowed.pth").write_text(sysconfig.get_paths()["purelib"])

    def install(self, *arguments: str) -> None:
        """Install what pip is given."""
        python = str(self.folder / "bin" / "python")
        pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet"]
        subprocess.run([*pip, *arguments], check=True, env=VARIABLES)

    def sparta(self, *arguments: str | Path) -> list[str]:
        """How to run `sparta` in it: an absolute path and the arguments."""
        return [str(self.folder / "bin" / "sparta"), *map(str, arguments)]

    def run(self, folder: Path, *arguments: str | Path) -> str:
        """What `sparta` writes to stdout when run in a folder."""
        done = subprocess.run(
            self.sparta(*arguments),
            cwd=folder,
            env=VARIABLES,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "build", "--outdir", str(out), str(ROOT)], check=True)
    return next(out.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """A new environment with the wheel in it, and the dependencies of this one."""
    environment = Environment(tmp_path_factory.mktemp("installed"))
    environment.borrow_dependencies()
    environment.install("--no-deps", str(wheel))
    return environment


@pytest.fixture(scope="module")
def demo(installed: Environment, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo's folder: scenes, their features and their index, made outside the repository."""
    folder = tmp_path_factory.mktemp("demo")
    write_scenes(folder / "scenes", 1000, seed=7, split="demo", workers=os.cpu_count() or 1)
    installed.run(folder, "extract", "scenes/images", "--backbone", "pixels", "--out", "features")
    installed.run(folder, "index", "features", "--model", "sample", "--out", "index")
    return folder


@pytest.fixture(scope="module")
def bare(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """A new environment with the wheel and its default dependencies, from the registry."""
    environment = Environment(tmp_path_factory.mktemp("bare"))
    environment.install(str(wheel))
    return environment


def test_holds_every_module_and_data_file_and_no_test(wheel: Path) -> None:
    files = {path for room in ROOMS for path in (ROOT / room).rglob("*.py")}
    files |= {path for pattern in DATA for path in ROOT.glob(pattern) if path.is_file()}
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {path.relative_to(ROOT).as_posix() for path in files} <= names
    assert {name.partition("/")[0] for name in names if ".dist-info/" not in name} == {*ROOMS}


def test_is_small_and_has_its_licences(wheel: Path) -> None:
    assert wheel.stat().st_size <= 40 * 10**6
    licences = [name for name in zipfile.ZipFile(wheel).namelist() if "/licenses/" in name]
    assert [name.partition("/licenses/")[2] for name in sorted(licences)] == [
        "LICENSE",
        "sparta/visualsparta/shipped/photos/LICENSE",
    ]


def test_has_the_one_version(installed: Environment, tmp_path: Path) -> None:
    assert installed.run(tmp_path, "--version") == f"sparta {PROJECT['version']}\n"


def test_answers_the_demos_query(installed: Environment, demo: Path) -> None:
    lines = (demo / "scenes" / "captions.jsonl").read_text().splitlines()
    captions = {row["image"]: row["captions"] for row in map(json.loads, lines)}
    table = installed.run(demo, "search", "index", QUERY, "-k", "1")
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


def test_the_default_has_no_extra(bare: Environment) -> None:
    """No torch, Java, LLVM or SciPy: nothing that an extra brings."""
    heavy = {*EXTRAS, "llvmlite", "numba"} - {"opentelemetry"}  # which comes with FastAPI
    assert not [name for name in sorted(heavy) if (bare.site / name).exists()]


def test_every_command_works_or_names_its_extra(
    bare: Environment, wheel: Path, tmp_path: Path
) -> None:
    """In an order in which the first photos are indexed first; extras are those of the wheel."""
    prepare(tmp_path)
    variables = VARIABLES | {"VISUALSPARTA_CACHE": str(tmp_path / "cache")}
    for command, extras in OUTCOMES.items():
        done = subprocess.run(
            bare.sparta(*command.split()),
            cwd=tmp_path,
            env=variables,
            capture_output=True,
            text=True,
            timeout=300,
        )
        advice = extras and f"pip install '{wheel}[{extras}]'"
        check(command, advice, done.returncode, done.stderr)


def test_photos_are_found_served_and_published(bare: Environment, tmp_path: Path) -> None:
    shutil.copytree(SAMPLE / "photos", tmp_path / "photos")
    bare.run(tmp_path, "index", "photos", "--out", "index")
    assert "000030.jpg" in bare.run(tmp_path, "search", "index", ELEPHANT, "-k", "1", "--explain")
    bare.run(tmp_path, "publish", "index", "--out", "site")
    assert (tmp_path / "site" / "index.html").is_file()
    command = bare.sparta("serve", "index", "--port", "0")
    with subprocess.Popen(
        command, cwd=tmp_path, env=VARIABLES, stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stderr is not None
        try:
            lines = iter(server.stderr.readline, "")
            found = (re.search(r"http://[\d.]+:\d+", line) for line in lines)
            address = next(match[0] for match in found if match)
            query = urllib.parse.urlencode({"q": ELEPHANT, "k": 5})
            with urllib.request.urlopen(f"{address}/v1/search?{query}", timeout=60) as response:
                answer = json.load(response)
        finally:
            server.terminate()
    assert answer["hits"][0]["image_id"] == "000030.jpg"
