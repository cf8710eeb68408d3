"""Clients that others' generators make of the OpenAPI document work: so the document is right."""

from __future__ import annotations

import importlib
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openapi_generator_cli
import pytest

from tests.documents import ROOT, code_blocks
from tests.needs import NODE_MODULES
from tests.server.fake import RIGHT, FakeSearcher


@pytest.fixture(scope="module")
def document(address: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("document") / "openapi.json"
    path.write_bytes(httpx.get(f"{address}/openapi.json", timeout=60).content)
    return path


# ---- Python, by OpenAPI Generator: it checks the type of every field ---------------------------


@pytest.fixture(scope="module")
def python(address: str, document: Path) -> Iterator[Any]:
    """The generated package, and its interface at the address of the server."""
    out = document.with_name("client")
    command = ["generate", "-g", "python", "-i", str(document), "-o", str(out)]
    command += ["--global-property", "apis,models,supportingFiles"]
    command += ["--additional-properties", "packageName=generated_client"]
    assert openapi_generator_cli.run(command).returncode == 0
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(out))
        package = importlib.import_module("generated_client")
        with package.ApiClient(package.Configuration(host=address)) as client:
            yield package.DefaultApi(client)


def test_python_reads_answers(python: Any, photos: Path) -> None:
    image_id = "garden/one.png"
    answer = python.search(q="red azure green qwx", k=3, explain=True)
    assert [hit.score for hit in answer.hits] == [330, 290, 190]
    assert answer.hits[0].explanation[0].box == pytest.approx(RIGHT, abs=1e-4)
    assert [(s.word, s.similarity) for s in answer.substitutions] == [("azure", 0.75)]
    assert python.search(q="red", backend="vse++").hits[0].view == 0
    assert [backend.name for backend in python.list_backends().backends] == ["sparta", "vse++"]
    assert python.get_photo(image_id=image_id) == (photos / image_id).read_bytes()
    assert python.get_image(image_id).metadata == {"width": 320, "height": 240}
    assert [term.term for term in python.similar(image_id, k=2).terms] == ["red", "green"]
    assert python.explain(image_id, q="green red").terms[0].label.words == "dark green"


def test_python_reads_errors(python: Any) -> None:
    errors = importlib.import_module("generated_client.exceptions")
    with pytest.raises(errors.NotFoundException) as error:
        python.get_photo("x.jpg")
    assert (error.value.data.status, error.value.data.var_field) == (404, "image_id")
    assert error.value.data.type == "urn:problem-type:visualsparta:unknown-image"
    with pytest.raises(errors.UnprocessableEntityException) as error:
        python.explain("garden/one.png", q="red", backend="vse++")
    assert error.value.data.var_field == "backend"


# ---- TypeScript, as docs/clients.md shows ------------------------------------------------------


def node(program: str, *arguments: str, folder: Path) -> str:
    done = subprocess.run(["node", program, *arguments], cwd=folder, capture_output=True, text=True)
    assert not done.returncode, done.stdout + done.stderr
    return done.stdout


@pytest.mark.needs("Node.js", "packages of npm")
def test_the_example_in_typescript(
    address: str, document: Path, photos: Path, tmp_path: Path
) -> None:
    (tmp_path / "node_modules").symlink_to(NODE_MODULES)
    [code] = code_blocks(ROOT / "docs/clients.md", "ts")
    code = code.replace("http://127.0.0.1:8000", address).replace("two dogs on a beach", "red blue")
    (tmp_path / "search.mts").write_text(code)
    packages = "node_modules/openapi-typescript/bin/cli.js", "node_modules/typescript/bin/tsc"
    node(packages[0], str(document), "--output", "visualsparta.d.ts", folder=tmp_path)
    options = "--strict --target es2022 --module es2022 --moduleResolution bundler"
    node(packages[1], *options.split(), "search.mts", folder=tmp_path)
    *hits, missing = node("search.mjs", folder=tmp_path).splitlines()
    found = FakeSearcher().search("red blue", 3).hits
    scores = ["red 120 blue 210", "red 200 blue 0", "red 0 blue 151"]
    assert hits == [
        f"{hit.rank} {hit.image_id} {own} {(photos / hit.image_id).stat().st_size} bytes"
        for hit, own in zip(found, scores, strict=True)
    ]
    assert re.match(r"404 image_id image 'no/such\.jpg' is not in the index", missing)
