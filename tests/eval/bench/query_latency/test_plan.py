"""What is read from an index: its images, its dense parts, and its tokenizer's queries."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from eval.bench.query_latency.collections.dense_vectors import read_dense
from eval.bench.query_latency.collections.queries import tokenise
from indexer.build import build_index
from indexer.dense.build import add_dense
from indexer.dense.text_encoder import ModelText, load_dense_model
from indexer.settings import PruningSettings
from sparta.command_line import cli
from sparta.errors import InputError
from sparta.features.store import FeatureStore
from sparta.tokenizer import WordPieceTokenizer
from tests.eval.dense_models import save_dense

TEXTS = ["dog cat", "", "the red ball", "qqq", "two dogs run dog", "beach ball", "sky"]
HURRY = ["--warm-up", "0", "--seconds", "0", "-k", "10", "--threads", "1", "--sizes", "30,40"]


@pytest.fixture(scope="module")
def index(
    tmp_path_factory: pytest.TempPathFactory, models: list[Path], views: list[FeatureStore]
) -> Path:
    root = tmp_path_factory.mktemp("speed")
    build_index([views[0]], [models[0]], root / "index", PruningSettings(top_n=12), device="cpu")
    for name, count in (("vse", 1), ("mv", 2)):
        add_dense(root / "index", views[0], name, save_dense(root / name, views=count))
    return root / "index"


@pytest.fixture(scope="module")
def texts(index: Path) -> Path:
    path = index.parent / "queries.txt"
    path.write_text("\n".join(TEXTS))
    return path


def test_queries_come_in_random_order_without_those_no_term_is_in(
    tokenizer: WordPieceTokenizer,
) -> None:
    found = tokenise(TEXTS, tokenizer, 100)
    known = ["dog cat", "the red ball", "two dogs run dog", "beach ball", "sky"]
    assert sorted(query.text for query in found) == sorted(known)
    assert [query.text for query in found] != known
    assert [query.number for query in found] == list(range(5))
    for query in found:
        parsed = tokenizer.encode_query(query.text)
        named = {tokenizer.vocabulary[term]: count for term, count in query.terms.items()}
        assert named == parsed.terms and query.pieces.split() == parsed.pieces
    assert [query.text for query in tokenise(TEXTS, tokenizer, 2)] == [
        query.text for query in found[:2]
    ]
    with pytest.raises(InputError, match="1 queries with a word of the index"):
        tokenise(["dog", "qqq"], tokenizer, 100)


@pytest.mark.parametrize(("name", "count"), [("vse", 1), ("mv", 2)])
def test_a_dense_part_gives_its_vectors_and_the_queries(
    index: Path, name: str, count: int, tokenizer: WordPieceTokenizer
) -> None:
    asked = tokenise(TEXTS, tokenizer, 100)
    found = read_dense(index, name, asked)
    assert found.images.shape[:2] == (21, count) == (21, found.about["views"])
    np.testing.assert_allclose(np.linalg.norm(found.images, axis=-1), 1, atol=1e-5)
    text = ModelText(load_dense_model(index / "dense" / name / "model"))
    for query in asked:
        np.testing.assert_allclose(found.queries[query.number], text.encode(query.text), atol=1e-6)
    assert len(found.encode_seconds) == len(asked) and found.encode_seconds.min() > 0


def run(*arguments: str | Path) -> tuple[int, str, BaseException | None]:
    found = CliRunner().invoke(cli, ["bench", "speed", *map(str, arguments)])
    return found.exit_code, found.output, found.exception


def test_the_command_over_an_index_with_dense_parts(
    index: Path, texts: Path, tmp_path: Path
) -> None:
    options: list[Any] = [
        "--queries",
        texts,
        "--out",
        tmp_path,
        "--dense",
        "vse",
        "--dense",
        "mv",
        *HURRY,
    ]
    engines = ["--engines", "columns,bm25s,numpy,mv-flat", "--top-n", "5,12"]
    code, shown, problem = run(index, *options, *engines)
    assert code == 0, problem
    assert "Encoding one text" in shown and "mv-flat (mv)" in shown
    results = json.loads((tmp_path / "speed.json").read_text())
    cells = {(one["engine"], one["vectors"], one["top_n"]) for one in results["records"]}
    sparse = {(name, "mean", n) for name in ("columns", "bm25s") for n in (5, 12)}
    assert cells == sparse | {("numpy", "vse", None), ("mv-flat", "mv", None)}
    assert results["sources"]["mean"]["images"] == 21
    assert {*results["encoders"]} == {"word pieces", "vse", "mv"}
    assert results["runs"][0]["arguments"]["top_n"] == "5,12"
    mixed = ["--engines", "bm25s", "--top-n", "5", "--kind", "mixed"]
    code, _, problem = run(index, *options, *mixed)
    assert code == 0, problem
    results = json.loads((tmp_path / "speed.json").read_text())
    assert {(one["kind"], one["run"]) for one in results["records"]} == {
        ("copies", 0),
        ("mixed", 1),
    }


def test_an_index_of_terms_chosen_by_frequency(
    views: list[FeatureStore], texts: Path, tmp_path: Path, models: list[Path]
) -> None:
    asked = tmp_path / "asked.txt"
    asked.write_text("dog\nbeach")
    pruning = PruningSettings(top_n=4, bits=6, asked=str(asked), asked_power=0.5)
    build_index([views[0]], [models[0]], tmp_path / "index", pruning, device="cpu")
    options: list[Any] = [tmp_path / "index", "--queries", texts, "--out", tmp_path / "out"]
    options += [*HURRY, "--engines", "columns"]
    _, _, error = run(*options, "--top-n", "3")
    assert "no fewer can be chosen: give 4" in str(error)
    code, output, _ = run(*options, "--top-n", "4")
    assert code == 0, output
    [(name, about)] = json.loads((tmp_path / "out" / "speed.json").read_text())["sources"].items()
    assert name == f"mean, {about['asked'][:12]} 0.5, 4, 6 bits"
    assert (len(about["asked"]), about["asked_power"], about["top_n"]) == (64, 0.5, 4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--top-n", "12"], "--queries is missing"),
        (["--top-n", "13"], "keeps 12 terms an image"),
        (["--top-n", "all"], "keeps 12 terms an image"),
        (["--top-n", "12", "--dense", "vsx"], "no dense part 'vsx'"),
    ],
)
def test_bad_input(
    index: Path, texts: Path, tmp_path: Path, options: list[str], message: str
) -> None:
    asked = [] if "queries" in message else ["--queries", str(texts)]
    code, _, problem = run(index, "--out", tmp_path / "o", *asked, *options, *HURRY)
    assert code == 1 and isinstance(problem, InputError) and message in str(problem)
