"""The paper's own path: the page's blocks run, and every engine finds the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import httpx
import pytest

import sparta
from sparta.captions.read import read_captions
from sparta.model_id import REGIONS
from tests.documents import ROOT
from tests.indexer.command_line import run
from tests.needs import package
from tests.paper import STEPS, blocks
from tests.server.served import served

package("pyserini", "lucene")
FLAGS = "--top-n 1000 --offset none --terms all --frequencies none --lucene"


def test_the_blocks_of_the_page_run_and_print_what_it_shows(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.paper", "--out", str(tmp_path / "paper")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    page = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8")
    shown = page.partition("side by side:")[2].partition("```text\n")[2].partition("```")[0]
    assert shown in done.stdout
    assert done.stdout.count('"image_id":"000001.jpg"') == 1  # the service's first hit


@pytest.mark.parametrize("source", ["package", "photos"])
def test_columns_lucene_pyserini_and_the_service_find_the_same(
    source: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    folder, model = REGIONS / "oscar", Path("regions")
    if source == "photos":
        folder, model = (
            request.getfixturevalue("shared") / "regions" / "val",
            tmp_path / "run/model",
        )
    captions = folder / "captions.jsonl"
    if source == "photos":
        captions = request.getfixturevalue("shared") / "photos" / "captions.jsonl"
    features, index = tmp_path / "features", tmp_path / "index"
    run("import", "vinvl", folder, "--image-suffix", ".jpg", "--out", features)
    if source == "photos":
        given = [f"data.features=[{features}]", f"data.captions={captions}", "data.split=val"]
        small = ["data.validation_split=null", "epochs=1", "accelerator=cpu", "workers=0"]
        sets = [word for one in (*given, *small) for word in ("--set", one)]
        run("train", "regions", "--out", tmp_path / "run", *sets)
    run("index", features, "--model", model, "--out", index, *FLAGS.split())
    photos = read_captions(captions, "test" if source == "package" else "val")
    with (
        sparta.open(index) as columns,
        sparta.open(index, engine="lucene") as lucene,
        served(index, "--engine", "lucene") as (address, _),
    ):
        pyserini = columns.pyserini()
        for query in [photo.captions[0] for photo in photos[:40]]:
            wanted = [(hit.id, hit.score) for hit in columns.search(query, 10)]
            assert wanted
            assert [(hit.id, hit.score) for hit in lucene.search(query, 10)] == wanted
            found = pyserini.search(query, 10)
            assert [(hit.docid, round(hit.score)) for hit in found] == wanted
            answer = httpx.get(f"{address}/v1/search", params={"q": query, "k": 10}).json()
            assert [(hit["image_id"], hit["score"]) for hit in answer["hits"]] == wanted


def test_the_page_names_what_make_runs() -> None:
    assert [language for language, _ in blocks(STEPS)] == ["", "python", "", ""]
