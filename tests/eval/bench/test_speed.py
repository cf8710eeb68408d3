"""The speed benchmark in small: every exact engine, the same hits, on indexes and without."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from eval.bench.corpus import TermQuery, tokenise
from eval.bench.engines import Answer, Bm25sEngine
from eval.bench.plots import SIZES, TOP_NS, read_recall, save_plots
from eval.bench.speed import measure_speed
from eval.bench.tables import Cell, Results, full, markdown
from eval.bench.timing import Timed
from eval.bench.truth import WrongAnswer
from eval.bench.vectors import read_dense
from indexer.build import build_index
from indexer.dense.build import add_dense
from indexer.dense.text_encoder import ModelText, load_dense_model
from indexer.settings import PruningSettings
from sparta.command_line import cli
from sparta.errors import InputError
from sparta.features.store import FeatureStore
from sparta.tokenizer import WordPieceTokenizer
from tests.eval.bench.tiny import EXACT, plan
from tests.eval.data import save_dense

TEXTS = ["dog cat", "", "the red ball", "qqq", "two dogs run dog", "beach ball", "sky"]
HURRY = ["--warm-up", "0", "--seconds", "0", "-k", "10", "--threads", "1", "--sizes", "30,40"]
RUN = {"warm_up": 0, "seconds": 0, "processor": "p", "cores": 2, "package_version": "0", "date": ""}


def run(*arguments: str | Path) -> tuple[int, str, BaseException | None]:
    found = CliRunner().invoke(cli, ["bench", "speed", *map(str, arguments)])
    return found.exit_code, found.output, found.exception


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Results]:
    folder = tmp_path_factory.mktemp("speed")
    engines = [*EXACT, "numpy", "faiss-flat", "mv-flat"]
    results = Results.open(folder)
    results.begin(RUN)
    measure_speed(plan(folder / "work", engines), results)
    yield results


def test_every_exact_engine_gives_the_same_hits_in_every_cell(measured: Results) -> None:
    """What `measure_speed` itself makes sure of; here, that nothing was left out."""
    sizes = (1000, 5000)
    cells = {(one["engine"], one["images"], one["top_n"]) for one in measured.records}
    dense = product(("numpy", "faiss-flat", "mv-flat"), sizes, (None,))
    assert cells == {*product(EXACT, sizes, (100, 50)), *dense}
    assert len(measured.records) == 4 * len(cells)
    for one in measured.records:
        assert one["overlap_at_10"] == 1 and one["checked"] == one["queries"] == 10
        assert 0 < one["p50_ms"] <= one["p95_ms"] <= one["p99_ms"]
        assert one["queries_per_second"] > 0 and one["memory_bytes"] > 0
        assert one["build_seconds"] >= 0 and len(one["beside"]) >= 2
    # Collections are deleted when they are done.
    assert [path.name for path in measured.path.parent.iterdir()] == ["speed.json"]


def test_what_is_measured_is_not_measured_again(
    measured: Results, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    again = Results.open(measured.path.parent)
    assert again.records == measured.records
    same = plan(tmp_path, ["lucene", "bm25s", "numpy"])
    with caplog.at_level(logging.INFO, "eval.bench.speed"):
        measure_speed(same, again)
    assert not caplog.records and len(again.records) == len(measured.records)


def test_an_interrupted_run_goes_on_with_what_was_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build, builds = Bm25sEngine.build, []

    def noted(self: Bm25sEngine) -> None:
        builds.append(self)
        build(self)

    monkeypatch.setattr(Bm25sEngine, "build", noted)
    small = plan(tmp_path / "work", ["bm25s", "numpy"], [], sizes=(1000,), top_n=(50,))
    results = Results(tmp_path / "speed.json")
    results.begin(RUN)
    timings = iter([1, 2])

    def interrupted(timed: Timed) -> dict[str, float]:
        if next(timings) == 2:
            raise KeyboardInterrupt
        return {"mean_ms": 1.0, "queries_per_second": 1.0}

    with monkeypatch.context() as patched:
        patched.setattr(Timed, "figures", interrupted)
        with pytest.raises(KeyboardInterrupt):
            measure_speed(small, results)
    results = Results.open(tmp_path)
    assert len(results.records) == 1
    measure_speed(small, results)
    assert len(builds) == 1 and len(results.records) == 4
    first = Cell("copies", "synthetic", "bm25s", 1000, 50, 10, 1)
    assert [results.has(first._replace(k=k, threads=t)) for k in (10, 100) for t in (1, 2)]


def test_a_wrong_answer_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = Bm25sEngine.search

    def wrong(self: Bm25sEngine, query: TermQuery, k: int) -> Answer:
        found = right(self, query, k)
        return Answer(found.documents[::-1], found.scores)

    monkeypatch.setattr(Bm25sEngine, "search", wrong)
    small = plan(tmp_path / "work", ["bm25s"], sizes=(1000,), top_n=(50,))
    with pytest.raises(WrongAnswer, match="bm25s"):
        measure_speed(small, Results(tmp_path / "speed.json"))


def test_tables_and_plots(measured: Results, tmp_path: Path) -> None:
    measured.engines = {"bm25s": {"settings": "plain", "promise": "exact"}}
    measured.left_out = {"faiss-flat": "faiss is not installed"}
    text = markdown(measured)
    assert "- **bm25s**: plain. Exact." in text and "- faiss-flat was left out: faiss" in text
    rows = full(measured).rows
    assert len(rows) == len(measured.records) and {len(row) for row in rows} == {17}
    save_plots(measured, tmp_path, {})
    assert {path.name for path in tmp_path.iterdir()} == {SIZES, TOP_NS}


def test_recall_is_that_of_indexes_pruned_alike(measured: Results, tmp_path: Path) -> None:
    row = {"terms": "trained", "bits": 8, "offset": "mean", "top_n": 50, "r10": 50.0}
    path = tmp_path / "pruning.json"
    path.write_text(json.dumps({"rows": [row, row | {"top_n": 100, "r10": 60.0}]}))
    recall = read_recall(path)
    older = (None, None)
    found = [("mean", "trained", 8, top_n, *older) for top_n in (50, 100)]
    assert recall == dict(zip(found, (50.0, 60.0), strict=True))
    about = {"offset": "mean", "terms": "trained", "bits": 8}
    save_plots(replace(measured, sources={"synthetic": about}), tmp_path, recall)
    drawn = tmp_path / "recall-by-latency.png"
    assert drawn.stat().st_size > 10_000
    drawn.unlink()
    asked = {"asked": "model", "asked_power": 0.35}
    for other in ({"bits": 6}, asked):
        save_plots(replace(measured, sources={"synthetic": about | other}), tmp_path, recall)
        assert not drawn.exists()
    path.write_text(json.dumps({"rows": [row | asked]}))
    save_plots(replace(measured, sources={"synthetic": about | asked}), tmp_path, read_recall(path))
    assert drawn.is_file()
    path.write_text(json.dumps([]))
    with pytest.raises(InputError, match="not a file of sparta eval pruning"):
        read_recall(path)


def test_another_machine_or_other_vectors_are_refused(tmp_path: Path) -> None:
    results = Results(tmp_path / "speed.json")
    results.begin(RUN)
    results.source("mean", {"bits": 8})
    results.save()
    again = Results.open(tmp_path)
    with pytest.raises(InputError, match="another machine"):
        again.begin(RUN | {"cores": 64})
    again.source("mean", {"bits": 8})
    with pytest.raises(InputError, match="other mean vectors"):
        again.source("mean", {"bits": 6})
    (tmp_path / "speed.json").write_text("{}[")
    with pytest.raises(InputError, match="not a file of sparta bench speed"):
        Results.open(tmp_path)


def test_the_command_needs_nothing_but_a_folder(tmp_path: Path) -> None:
    options = ["--sizes", "1000", "--top-n", "50", "--engines", "bm25s,lucene", "--limit", "40"]
    hurry = ["--warm-up", "0", "--seconds", "0", "-k", "10", "--threads", "1"]
    code, shown, problem = run("--out", tmp_path / "o", *options, *hurry)
    assert code == 0, problem
    assert "Queries/s by images, threads: 1: copies, synthetic, top-n 50" in shown
    assert {path.name for path in (tmp_path / "o").iterdir()} == {"speed.json", "speed.md"}


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
    assert len(found.encode_seconds) == len(asked) and min(found.encode_seconds) > 0


def test_the_command_over_an_index_with_dense_parts(
    index: Path, texts: Path, tmp_path: Path
) -> None:
    dense = ["--dense", "vse", "--dense", "mv"]
    options: list[Any] = ["--queries", texts, "--out", tmp_path, *dense, *HURRY]
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
    kinds = {(one["kind"], one["run"]) for one in results["records"]}
    assert kinds == {("copies", 0), ("mixed", 1)}


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
    ("given", "options", "message"),
    [
        ("nothing", ["--sizes", "10,x"], "--sizes: 'x' is not a number"),
        ("nothing", ["--kind", "clones"], "--kind must be one of copies, mixed"),
        ("nothing", ["--engines", "lucy"], "'lucy' is not one of: lucene, columns"),
        ("nothing", ["--dense", "vse"], "without an index there is only clustered"),
        ("index", ["--top-n", "12"], "--queries is missing"),
        ("all", ["--top-n", "13"], "keeps 12 terms an image"),
        ("all", ["--top-n", "all"], "keeps 12 terms an image"),
        ("all", ["--top-n", "12", "--dense", "vsx"], "no dense part 'vsx'"),
    ],
)
def test_bad_input(
    index: Path, texts: Path, tmp_path: Path, given: str, options: list[str], message: str
) -> None:
    inputs: list[Any] = [] if given == "nothing" else [index, *HURRY]
    inputs += ["--queries", texts] if given == "all" else []
    code, _, problem = run(*inputs, "--out", tmp_path / "o", *options)
    assert code == 1 and isinstance(problem, InputError) and message in str(problem)
    assert given != "nothing" or not (tmp_path / "o").exists()
