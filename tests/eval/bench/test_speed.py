"""The speed benchmark in small: every exact engine, the same hits; its tables and figures."""

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from eval.bench.engines import Answer, Bm25sEngine, WrongAnswer
from eval.bench.queries import TermQuery
from eval.bench.speed import Pace, Timed, measure_speed
from eval.bench.tables import (
    BY_SIZE,
    BY_TOP_N,
    ENOUGH,
    Cell,
    Results,
    _draw_by_top_n,
    markdown,
    save_plots,
    sheets,
)
from indexer.build import build_index
from indexer.dense.build import add_dense
from indexer.engines.open import open_backend, open_index
from indexer.settings import PruningSettings
from sparta.captions.read import CaptionedPhoto, read_captions
from sparta.errors import InputError
from sparta.features.store import FeatureStore
from tests.eval.bench.tiny import EXACT, HURRY, plan
from tests.eval.data import Data, refused, save_dense, shown, sparta, write_captions
from tests.indexer.test_rerank import SOURCE, embed, save
from tests.indexer.tiny import write_store
from tests.training.encoders import clip

TEXTS = ["dog cat", "", "the red ball", "qqq", "two dogs run dog", "beach ball", "sky"]
SPEED = ["bench", "speed", "--seconds", "0.02", "--images", "30,40"]
RUN: dict[str, Any] = {"command": "sparta bench speed x", "version": "0", "date": "today"}
RUN |= {"data": {"index": ["0" * 64]}, "models": ["1" * 64], "pace": asdict(HURRY)}
RUN |= {"machine": {"processor": "p", "cores": 2}, "seed": 0}


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Results]:
    folder = tmp_path_factory.mktemp("speed")
    engines = [*EXACT, "numpy", "faiss-flat"]
    results = Results.open(folder)
    results.begin(RUN)
    results.note("queries", {"count": 40, "from": "drawn"})
    measure_speed(plan(folder / "work", engines), results)
    yield results


def test_every_exact_engine_gives_the_same_hits_in_every_cell(measured: Results) -> None:
    """What `measure_speed` itself makes sure of; here, that nothing was left out."""
    cells = {(one["engine"], one["images"], one["top_n"]) for one in measured.records}
    dense = product(("numpy", "faiss-flat"), (1000, 5000), (None,))
    # All sizes at the first top-n, the other top-n at the largest size.
    sparse = {(name, *own) for name in EXACT for own in ((1000, 100), (5000, 100), (5000, 50))}
    assert cells == sparse | {*dense}
    assert len(measured.records) == 4 * len(cells)
    for one in measured.records:
        assert one["overlap_at_10"] == 1 and one["checked"] == one["warm_up"] == 10
        assert 0 < one["p50_ms"] <= one["p95_ms"] <= one["p99_ms"]
        assert 0 < one["low_ms"] <= one["ms"] <= one["high_ms"]
        assert one["ms"] * one["queries_per_second"] == pytest.approx(1000 * one["threads"])
        assert one["seconds"] >= HURRY.seconds
        assert one["build_seconds"] >= 0 and one["memory_bytes"] > 0 < one["index_bytes"]
    # Collections are deleted when they are done.
    assert [path.name for path in measured.path.parent.iterdir()] == ["speed.json"]


def test_an_interrupted_run_continues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build, builds = Bm25sEngine.build, []

    def noted(self: Bm25sEngine) -> None:
        builds.append(self)
        build(self)

    def interrupted(timed: Timed) -> dict[str, float]:
        if len(builds) == 2:
            raise KeyboardInterrupt
        return figures(timed)

    figures = Timed.figures
    monkeypatch.setattr(Bm25sEngine, "build", noted)
    small = plan(tmp_path / "work", ["bm25s"], [], sizes=(1000, 1200), top_n=(50,))
    results = Results(tmp_path / "speed.json")
    results.begin(RUN)
    with monkeypatch.context() as patched:
        patched.setattr(Timed, "figures", interrupted)
        with pytest.raises(KeyboardInterrupt):
            measure_speed(small, results)
    measure_speed(small, again := Results.open(tmp_path))
    assert [one.data.images for one in builds] == [1000, 1200, 1200]
    assert len(again.records) == 8
    first = Cell("near-duplicates", None, "bm25s", 1000, 50, 10, 1)
    assert [again.has(first._replace(k=k, threads=t)) for k in (10, 100) for t in (1, 2)]


def test_a_wrong_answer_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = Bm25sEngine.search

    def wrong(self: Bm25sEngine, query: TermQuery, k: int) -> Answer:
        found = right(self, query, k)
        return Answer(found.documents[::-1], found.scores)

    monkeypatch.setattr(Bm25sEngine, "search", wrong)
    small = plan(tmp_path / "work", ["bm25s"], sizes=(1000,), top_n=(50,))
    with pytest.raises(WrongAnswer, match="bm25s"):
        measure_speed(small, Results(tmp_path / "speed.json"))


def test_figures_of_a_report(measured: Results, tmp_path: Path) -> None:
    text = markdown(measured)
    fewest = min(one["queries"] for one in measured.records)
    assert f"({fewest:,} at least)" in text and fewest < ENOUGH
    assert [path.name for path in save_plots(measured, tmp_path)] == [BY_SIZE, BY_TOP_N]


def test_another_machine_pace_or_other_images_are_refused(tmp_path: Path) -> None:
    results = Results(tmp_path / "speed.json")
    results.begin(RUN)
    results.note("images", {"bits": 8})
    results.save()
    again = Results.open(tmp_path)
    again.note("images", {"bits": 8})
    for key, value in (("machine", {"processor": "p", "cores": 64}), ("pace", asdict(Pace(9)))):
        with pytest.raises(InputError, match=rf"with {key} .* choose another --out"):
            again.begin(RUN | {key: value})
    with pytest.raises(InputError, match="figures for other images"):
        again.note("images", {"bits": 6})
    for text in ("{}[", '{"records": [{"kind": "drawn"}]}'):
        (tmp_path / "speed.json").write_text(text)
        with pytest.raises(InputError, match="not a results file"):
            Results.open(tmp_path)


@pytest.fixture(scope="module")
def index(
    tmp_path_factory: pytest.TempPathFactory, models: list[Path], views: list[FeatureStore]
) -> Path:
    root = tmp_path_factory.mktemp("speed")
    build_index([views[0]], [models[0]], root / "index", PruningSettings(top_n=12), device="cpu")
    for name, count in (("vse", 1), ("mv", 2)):
        add_dense(root / "index", views[0], name, save_dense(root / name, views=count))
    return root / "index"


def test_the_command_needs_nothing_but_an_index(index: Path, tmp_path: Path) -> None:
    """An index of few terms, without features beside it, and no queries: all is made of it."""
    out = tmp_path / "o"
    run = sparta(*SPEED, index, "--out", out)
    text = run.output
    assert run.exit_code == 0, run.exception
    assert "Synthetic of 21 photos: 30, 40 images of all terms; 40 images of 50, 100" not in text
    assert "Queries per second by images (table 2): synthetic, top-n all, k 10, threads 1" in text
    assert {path.name for path in out.iterdir()} == {"speed.json", "speed.md", BY_SIZE}
    results = json.loads((out / "speed.json").read_text())
    assert {one["engine"] for one in results["records"]} == {*EXACT, "numpy"}
    assert results["about"]["images"]["top_n"] == 12


def test_features_and_captions(index: Path, data: Data, tmp_path: Path) -> None:
    options = ["--captions", data.captions_file, "--features", data.views[0].folder]
    options += ["--model", data.models[0], "--corpus", "near-duplicates", "--top-n", "4,2,900,all"]
    run = sparta(*SPEED, index, "--out", tmp_path, *options)
    text = run.output
    assert run.exit_code == 0 and "30, 40 images of 4 terms; 40 images of 2, all terms" in text, (
        text
    )
    assert "captions.jsonl, 21 of 21 photos of split val" in text
    assert "R@1" in text and "42 captions of 21 photos, ranked among 21 photos" in text
    files = {"speed.json", "speed.md", BY_SIZE, BY_TOP_N}
    assert {path.name for path in tmp_path.iterdir()} == files
    results = json.loads((tmp_path / "speed.json").read_text())
    assert [one["top_n"] for one in results["recall"]] == [4, 2, "all"]
    assert 0 < min(one["r10"] for one in results["recall"]) <= 100
    assert results["about"]["images"]["top_n"] == "all"


def test_the_command_over_an_index_with_dense_parts(index: Path, tmp_path: Path) -> None:
    texts = tmp_path / "queries.txt"
    texts.write_text("\n".join(TEXTS))
    command = [*SPEED, index, "--queries", texts, "--out", tmp_path, "--dense", "vse"]
    text = shown(*command, "--engine", "columns,bm25s,numpy", "--top-n", "5,3")
    assert "Encoding the text" in text and "numpy (vse)" in text
    results = json.loads((tmp_path / "speed.json").read_text())
    cells = {(one["engine"], one["vectors"], one["top_n"]) for one in results["records"]}
    sparse = {(name, None, n) for name in ("columns", "bm25s") for n in (5, 3)}
    assert cells == sparse | {("numpy", "vse", None)}
    assert {*results["encoders"]} == {"vse"}
    assert results["runs"][0]["arguments"]["top_n"] == "5,3"
    assert results["about"]["queries"] == {"count": 5, "from": "queries.txt"}
    shown(*command, "--engine", "bm25s", "--top-n", "5", "--corpus", "blends")
    results = json.loads((tmp_path / "speed.json").read_text())
    kinds = {(one["kind"], one["run"]) for one in results["records"]}
    assert kinds == {("synthetic", 0), ("blends", 1)}


def test_dense_models_in_figure_1(index: Path, data: Data, tmp_path: Path) -> None:
    options = ["--captions", data.captions_file, "--corpus", "near-duplicates", "--dense", "vse"]
    options += ["--engine", "columns,numpy,faiss-hnsw", "--top-n", "5,3", "--out", tmp_path]
    shown(*SPEED, index, *options)
    results = Results.open(tmp_path)
    [found] = [one for one in results.recall if one["top_n"] == "vse"]
    with closing(open_backend(index, "vse")) as searcher:
        hits = [
            [hit.id for hit in searcher.search(text, 21).hits].index(photo.image_id)
            for photo in read_captions(data.captions_file, "val")
            for text in photo.captions
        ]
    assert found["queries"] == len(hits) == 42
    for k in (1, 5, 10):
        assert found[f"r{k}"] == pytest.approx(100 * sum(hit < k for hit in hits) / len(hits))
    figure = _draw_by_top_n(results, ["near-duplicates"])
    assert figure is not None
    lines = figure.axes[-1].lines
    dots = {line.get_label(): np.array(line.get_data()).T.tolist() for line in lines}
    assert dots.keys() == {"columns", "numpy (vse)"} and len(dots["columns"]) == 2
    [dense] = [one for one in results.records if one["engine"] == "numpy" and one["images"] == 40]
    assert dots["numpy (vse)"] == [[dense["text_ms"], found["r1"]]]


def test_vectors_of_reranking_with_their_text_tower(tmp_path: Path) -> None:
    model = save(tmp_path / "model", clip(tmp_path / "clip"))
    store = write_store(tmp_path / "features", SOURCE)
    build_index([store], [model], tmp_path / "index", device="cpu", rerank=30)
    (tmp_path / "queries.txt").write_text("a red dog\nred ball\ntwo dogs run\n")
    options = ["--queries", tmp_path / "queries.txt", "--dense", "rerank", "--out", tmp_path / "o"]
    options += ["--engine", "columns,numpy,faiss-hnsw", "--corpus", "near-duplicates"]
    text = shown(*SPEED, tmp_path / "index", *options, "--top-n", "300")
    assert "Milliseconds from the text of a query: near-duplicates" in text
    results = json.loads((tmp_path / "o" / "speed.json").read_text())
    assert results["about"]["rerank"]["dimension"] == 8 and results["encoders"]["rerank"]["ms"] > 0
    for one in results["records"]:
        assert ("text_ms" in one) == (one["vectors"] == "rerank")
        if one["vectors"]:
            for name in ("ms", "p50_ms", "p95_ms"):
                assert one[f"text_{name}"] > one["p50_ms"]
    searcher, shares = open_index(tmp_path / "index"), []
    for query in ("a red dog", "red ball", "two dogs run"):
        ours = [hit.id for hit in searcher.search(query, 10)]
        vector = embed(tmp_path / "clip", query)
        photos = {one.image_id: torch.tensor(one.features[-1]).float() for one in store}
        near = {one: float(vector @ photos[one] / photos[one].norm()) for one in photos}
        theirs = sorted(near, key=lambda one: -near[one])[:10]
        shares.append(len({*ours} & {*theirs}) / 10)
    kept = results["encoders"]["rerank"]["kept_at_10"]
    assert kept == pytest.approx(sum(shares) / 3) and f"{kept:.0%} are among" in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--images", "10,x"], "--images: 'x' is not a number"),
        (["--dense", "vsx"], "no dense part 'vsx'"),
        (["--dense", "mv"], "it has 2 vectors an image"),
        (["--dense", "rerank"], "has no vectors: build it with --rerank"),
        (["--queries", "a.txt", "--captions", "b.jsonl"], "give one of them"),
        (["--model", "photos", "--features", "."], "was built from other features"),
    ],
)
def test_bad_input(index: Path, tmp_path: Path, options: list[str], message: str) -> None:
    refused(message, *SPEED, index, "--out", tmp_path / "o", *options)
    assert not (tmp_path / "o" / "speed.json").exists()


def test_captions_of_other_photos_are_refused_with_ids_of_both(
    index: Path, captioned: list[CaptionedPhoto], tmp_path: Path
) -> None:
    other = CaptionedPhoto("other.jpg", "val", ("a dog",))
    file = write_captions(tmp_path / "captions.jsonl", [other])
    command = [*SPEED, index, "--out", tmp_path / "o", "--captions", file]
    said = refused("none of its photos is in the index, which has '", *command)
    assert captioned[0].image_id in said and "'other.jpg'" in said


# ---- tables of records made up by hand -----------------------------------------------------------


PLAIN = {"kind": "near-duplicates", "vectors": None, "k": 10, "threads": 1, "overlap_at_10": 1.0}


def record(engine: str, images: int, ms: float, **changes: object) -> dict[str, object]:
    times = {"ms": ms, "low_ms": 0.9 * ms, "high_ms": 1.3 * ms}
    times |= {"queries_per_second": 1000 / ms, "queries": 5000, "index_bytes": images * 1000}
    return PLAIN | {"engine": engine, "images": images, "top_n": 1000} | times | changes


RECORDS = [
    record("lucene", 1000, 4),
    record("columns", 1000, 0.5),
    record("columns", 5000, 2),
    record("columns", 5000, 8, k=100),
    record("columns", 5000, 3, threads=2, queries_per_second=600),
    record("columns", 5000, 0.7, top_n=100),
    record("lucene", 5000, 9, top_n="all"),
    record("numpy", 1000, 50, top_n=None, vectors="vse", queries=70),
]
RECALL = [{"top_n": 100, "r1": 20.0, "r5": 40.25, "r10": 60.0}]


def test_tables_by_images_and_by_terms_that_an_image_keeps() -> None:
    made = {
        sheet.title.replace(" (table 2)", ""): (sheet.columns[1:], {a: b for a, *b in sheet.rows})
        for sheet in sheets(Results(Path("x"), records=RECORDS, recall=RECALL))
    }
    about = "near-duplicates, top-n 1000, k 10, threads"
    assert made[f"Queries per second by images: {about} 1"] == (
        ["1,000", "5,000"],
        {"lucene": ["250", "-"], "columns": ["2,000", "500"], "numpy (vse)": ["20*", "-"]},
    )
    assert made[f"Milliseconds a query by images: {about} 1"][1] == {
        "lucene": ["4 ±20%", "-"],
        "columns": ["0.5 ±20%", "2 ±20%"],
        "numpy (vse)": ["50* ±20%", "-"],
    }
    assert made[f"Index on disk, MB: {about} 1"][1]["columns"] == ["1.0", "5.0"]
    two = made[f"Queries per second by images: {about} 2"]
    assert two == (["5,000"], {"columns": ["600"]})
    kept = "Speed and recall by terms an image keeps (table 3): near-duplicates, 5,000 images, k 10"
    assert made[kept] == (
        ["columns ms", "columns per s", "lucene ms", "lucene per s", "R@1", "R@5", "R@10"],
        {
            "100": ["0.7", "1,429", "-", "-", "20.0", "40.2", "60.0"],
            "1000": ["2", "500", "-", "-", "-", "-", "-"],
            "all": ["-", "-", "9", "111", "-", "-", "-"],
        },
    )
