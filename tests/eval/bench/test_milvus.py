"""A measurement of Milvus beside columns at a small scale."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from eval.bench import milvus as milvus_module
from eval.bench.milvus import measure_milvus
from indexer.milvus.collection import Collection
from indexer.milvus.connection import Milvus
from indexer.milvus.push import build_version
from indexer.milvus.search import MilvusSearcher
from sparta.command_line import cli
from sparta.errors import InputError
from tests.server.drawings import index_drawings
from tests.server.fake import draw

TEXTS = ["red", "blue green", "purple"]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    photos = draw(tmp_path_factory.mktemp("photos"))
    return index_drawings(tmp_path_factory.mktemp("drawings") / "index", photos)


def test_the_command_writes_and_shows_the_figures(index: Path, uri: str, tmp_path: Path) -> None:
    (queries := tmp_path / "queries.txt").write_text("\n".join([*TEXTS, "red blue"]))
    out = tmp_path / "figures.json"
    arguments = [index, uri, "--queries", queries, "--query-count", 3, "--out", out]
    shown = CliRunner().invoke(cli, ["bench", "milvus", *map(str, arguments)])
    assert shown.exit_code == 0, shown.output
    assert "5 images pushed in" in shown.output
    record = json.loads(out.read_text())
    assert (record["images"], record["queries"]) == (5, 3)
    assert [(one["share"], one["engine"]) for one in record["times"]] == [
        (share, engine) for share in (1.0, 0.5, 0.01) for engine in ("columns", "milvus")
    ]
    assert all(0 < one["p50_ms"] <= one["p99_ms"] for one in record["times"])
    name = f"bench_{build_version(index)}"
    assert not Collection(Milvus(uri), name, 0).exists()


def test_no_collection_is_written_over(index: Path, uri: str) -> None:
    name = f"taken_{build_version(index)}"
    Collection(Milvus(uri), name, 0).create()
    with pytest.raises(InputError, match=f"has a collection {name}: give another --collection"):
        measure_milvus(index, uri, "taken", TEXTS)


def test_hits_that_differ_end_it(index: Path, uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    search = MilvusSearcher.search

    def wrong(searcher: MilvusSearcher, *arguments: Any, **named: Any) -> Any:
        found = search(searcher, *arguments, **named)
        return replace(found, hits=found.hits[1:])

    monkeypatch.setattr(milvus_module, "SHARES", (1.0,))
    monkeypatch.setattr(MilvusSearcher, "search", wrong)
    with pytest.raises(InputError, match="the hits of the two engines differ for 'red'"):
        measure_milvus(index, uri, "differing", TEXTS)
