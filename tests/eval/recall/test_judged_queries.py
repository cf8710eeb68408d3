"""First hits, on answers known by hand and through the command."""

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from eval.recall.judged_queries import JudgedQuery, measure_first_hits, read_judged_queries
from indexer.build import build_index
from indexer.search.open import open_index
from sparta.command_line import cli
from sparta.errors import InputError
from sparta.features.store import FeatureStore
from tests.eval.recall.ranked import RankedSearcher


def judged(query: str, images: set[str], kind: str = "query") -> JudgedQuery:
    return JudgedQuery(query=query, images=frozenset(images), kind=kind)


def test_first_hits_by_kind() -> None:
    answers = {"a": ["1", "2"], "b": ["2", "1"], "c": ["3"], "none": []}
    searcher = RankedSearcher(answers, ["1", "2", "3", "4"])
    queries = [
        judged("a", {"1"}, "x"),
        judged("b", {"1", "3"}, "x"),
        judged("c", {"1", "2", "3", "4"}, "y"),
        judged("none", {"1"}, "y"),
    ]
    steps: list[tuple[str, int, int]] = []
    found = measure_first_hits(searcher, queries, lambda *step: steps.append(step))
    assert found.right == {"x": 1, "y": 1}
    assert found.queries == {"x": 2, "y": 2}
    assert found.share == 50.0
    assert found.chance == pytest.approx(100 * (1 + 2 + 4 + 1) / 4 / 4)
    assert steps == [("search", done, 4) for done in range(1, 5)]
    assert searcher.searches == [(query.query, 1) for query in queries]


def test_malformed_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "queries.jsonl"
    with pytest.raises(InputError, match=r"queries\.jsonl cannot be read"):
        read_judged_queries(path)
    path.write_text("")
    with pytest.raises(InputError, match=r"queries\.jsonl has no query"):
        read_judged_queries(path)
    path.write_text('{"query": "a", "images": []}\n{"query": "a", "images": "x.jpg"}\n')
    with pytest.raises(InputError, match=re.escape(f"{path}:2: ")):
        read_judged_queries(path)


def test_a_byte_order_mark_and_empty_last_lines_are_no_queries(tmp_path: Path) -> None:
    path = tmp_path / "queries.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"query": "a", "images": ["x.jpg"]}\n\n\n')
    assert read_judged_queries(path) == [judged("a", {"x.jpg"})]


def test_command(tmp_path: Path, views: list[FeatureStore], models: list[Path]) -> None:
    index, queries = tmp_path / "index", tmp_path / "queries.jsonl"
    build_index(views, models, index, device="cpu")
    searcher = open_index(index)
    first = searcher.search("dog", 1).hits[0].image_id
    searcher.close()
    lines = [{"query": "dog", "images": [first]}, {"query": "dog", "images": [], "kind": "wrong"}]
    queries.write_text("".join(json.dumps(line) + "\n" for line in lines))
    arguments = ["eval", "queries", str(index), "--queries", str(queries)]
    run = CliRunner().invoke(cli, [*arguments, "--json"])
    assert run.exit_code == 0, run.output
    found = json.loads(run.stdout)
    assert found["right"] == {"query": 1, "wrong": 0}
    assert found["share"] == 50.0
    run = CliRunner().invoke(cli, arguments, env={"COLUMNS": "200"})
    for cell in ("query", "wrong", "100.0 %", "50.0 %", "random order"):
        assert cell in run.stdout
