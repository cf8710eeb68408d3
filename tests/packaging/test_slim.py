"""The slim installation: search and serve without torch, transformers, and what Pyserini needs."""

import json
import re
import subprocess
import tomllib
import urllib.parse
import urllib.request
from pathlib import Path

import pytest

from tests.packaging.environments import ROOT, VARIABLES, Environment

pytestmark = [pytest.mark.packaging, pytest.mark.timeout(900)]

REQUIREMENTS = ROOT / "docs" / "slim.txt"
QUERY = "hot air balloons above the mountains"


@pytest.fixture(scope="session")
def slim(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    environment = Environment(tmp_path_factory.mktemp("slim"))
    environment.install("--requirement", str(REQUIREMENTS))
    environment.install("--no-deps", "pyserini", str(wheel))
    return environment


def test_requirements_are_the_projects() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = [line for line in REQUIREMENTS.read_text().splitlines() if not line.startswith("#")]
    assert set(lines) < set(project["dependencies"])


def test_has_no_torch(slim: Environment) -> None:
    assert not [name for name in ("torch", "transformers") if (slim.site / name).exists()]


@pytest.mark.parametrize("engine", ["columns", "lucene"])
def test_search_answers_alike(
    slim: Environment, installed: Environment, demo: Path, engine: str
) -> None:
    arguments = ["search", "index", QUERY, "-k", "5", "--engine", engine, "--explain"]
    assert slim.run(demo, *arguments) == installed.run(demo, *arguments)


def test_server_answers(slim: Environment, demo: Path) -> None:
    command = slim.sparta("serve", "index", "--port", "0")
    with subprocess.Popen(
        command, cwd=demo, env=VARIABLES, stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stderr is not None
        try:
            lines = iter(server.stderr.readline, "")
            found = (re.search(r"http://[\d.]+:\d+", line) for line in lines)
            address = next(match[0] for match in found if match)
            query = urllib.parse.urlencode({"q": QUERY, "k": 5})
            with urllib.request.urlopen(f"{address}/v1/search?{query}", timeout=60) as response:
                answer = json.load(response)
        finally:
            server.terminate()
    assert len(answer["hits"]) == 5
