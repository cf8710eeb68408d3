"""The speed benchmark in small: every exact engine, the same hits, on indexes and without."""

import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from eval.bench.corpus import TermQuery, tokenise
from eval.bench.engines import ENGINES, Answer, Bm25sEngine
from eval.bench.plots import BY_SIZE, BY_TOP_N, COLOURS, save_plots
from eval.bench.speed import make_plan, measure_speed
from eval.bench.tables import Cell, Results, full, markdown
from eval.bench.timing import ENOUGH, Pace, Timed
from eval.bench.truth import WrongAnswer
from eval.bench.vectors import read_dense
from indexer.build import build_index
from indexer.dense.build import add_dense
from indexer.dense.text_encoder import ModelText, load_dense_model
from indexer.settings import PruningSettings
from sparta.captions.read import CaptionedPhoto
from sparta.errors import InputError
from sparta.features.store import FeatureStore
from sparta.tokenizer import WordPieceTokenizer
from tests.eval.bench.tiny import EXACT, HURRY, made, plan
from tests.eval.data import Data, refused, save_dense, shown, sparta, write_captions

TEXTS = ["dog cat", "", "the red ball", "qqq", "two dogs run dog", "beach ball", "sky"]
SPEED = ["bench", "speed", "--warm-up", "10", "--seconds", "0.02", "--sizes", "30,40"]
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
        raise KeyboardInterrupt

    monkeypatch.setattr(Bm25sEngine, "build", noted)
    small = plan(tmp_path / "work", ["bm25s", "numpy"], [], sizes=(1000,), top_n=(50,))
    results = Results(tmp_path / "speed.json")
    results.begin(RUN)
    with monkeypatch.context() as patched:
        patched.setattr(Timed, "figures", interrupted)
        with pytest.raises(KeyboardInterrupt):
            measure_speed(small, results)
    measure_speed(small, results)
    assert len(builds) == 1 and len(Results.open(tmp_path).records) == 4
    first = Cell("copies", None, "bm25s", 1000, 50, 10, 1)
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


def test_report_and_figures(measured: Results, tmp_path: Path) -> None:
    measured.engines = {"bm25s": {"settings": "plain", "promise": "exact"}}
    measured.missing = {"engine faiss-flat": "pip install 'visualsparta[bench]'"}
    text = markdown(measured)
    assert "- **bm25s**: plain. Exact." in text
    assert "- engine faiss-flat: pip install 'visualsparta[bench]'." in text
    assert "    sparta bench speed x\n" in text and "models: 111111111111; seed: 0" in text
    assert "timed for 0.01 s, after a warm-up of 10 queries" in text
    fewest = min(one["queries"] for one in measured.records)
    assert f"({fewest:,} at least)" in text and fewest < ENOUGH
    rows = full(measured).rows
    assert len(rows) == len(measured.records) and {len(row) for row in rows} == {20}
    assert [path.name for path in save_plots(measured, tmp_path)] == [BY_SIZE, BY_TOP_N]


def test_figures_have_no_overlapping_texts_and_words_for_kinds(
    measured: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: drawn.append(figure))
    crowded = [one | {"images": 1300} for one in measured.records if one["images"] == 1000]
    many = [one | {"top_n": 2000} for one in measured.records if one["top_n"] == 50]
    many += [one | {"top_n": "all"} for one in many]
    shares = {50: 20.0, 100: 26.0, 2000: 26.1, "all": 26.2}
    recall = [{"top_n": n, "r1": share, "r5": 1, "r10": 1} for n, share in shares.items()]
    save_plots(
        replace(measured, records=measured.records + crowded + many, recall=recall), tmp_path
    )
    assert [len(figure.axes) for figure in drawn] == [1, 2]
    for figure in drawn:
        FigureCanvasAgg(figure).draw()
        for axes in [*figure.axes, *(one for main in figure.axes for one in main.child_axes)]:
            for axis in (axes.xaxis, axes.yaxis):
                labels = [one for one in axis.get_ticklabels(which="both") if one.get_text()]
                boxes = [one.get_window_extent() for one in labels]
                for one, other in combinations(boxes, 2):
                    assert not one.overlaps(other), (figure, labels)
            for line in axes.lines:
                across = np.asarray(line.get_xdata()).tolist()
                # A vertical stroke would be two figures of one place.
                assert axes.get_xlabel() == "time of a query, ms" or len(across) == len({*across})
                assert line.get_color() == COLOURS[str(line.get_label()).split()[0]]
    assert COLOURS.keys() == ENGINES.keys() and len({*COLOURS.values()}) == len(ENGINES)
    assert drawn[0].axes[0].get_xlabel() == "number of images (near-copies of photos)"


def test_two_top_n_that_keep_all_terms_are_one_collection(tmp_path: Path) -> None:
    """Else the figure has a vertical stroke: two measurements of one index at one place."""
    source = made(np.ones((50, 12), np.uint8), 8)
    choices = replace(plan(tmp_path, ["bm25s"]).choices, top_n=[5, 12, 2000, None], dense=[])
    asked = plan(tmp_path, ["bm25s"]).asked
    found = make_plan(tmp_path, source, asked, choices, Results(tmp_path / "x"))
    assert found.choices.top_n == [5, None]
    assert found.collections == [(1000, 5), (5000, 5), (5000, None)]


def test_another_machine_pace_or_other_images_are_refused(tmp_path: Path) -> None:
    results = Results(tmp_path / "speed.json")
    results.begin(RUN)
    results.note("images", {"bits": 8})
    results.save()
    again = Results.open(tmp_path)
    with pytest.raises(InputError, match=r"with machine .* choose another --out"):
        again.begin(RUN | {"machine": {"processor": "p", "cores": 64}})
    with pytest.raises(InputError, match=r"with pace .* choose another --out"):
        again.begin(RUN | {"pace": asdict(Pace(seconds=9))})
    again.note("images", {"bits": 8})
    with pytest.raises(InputError, match="figures for other images"):
        again.note("images", {"bits": 6})
    (tmp_path / "speed.json").write_text("{}[")
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


def test_vectors_of_a_dense_part(index: Path, tokenizer: WordPieceTokenizer) -> None:
    asked = tokenise(TEXTS, tokenizer)
    found = read_dense(index, "vse", asked)
    assert len(found.images) == 21
    np.testing.assert_allclose(np.linalg.norm(found.images, axis=-1), 1, atol=1e-5)
    text = ModelText(load_dense_model(index / "dense" / "vse" / "model"))
    for query in asked:
        np.testing.assert_allclose(found.queries[query.number], text.encode(query.text), atol=1e-6)
    assert 0 < found.encode_milliseconds["p50_ms"] <= found.encode_milliseconds["p95_ms"]


def test_the_command_needs_nothing_but_an_index(index: Path, tmp_path: Path) -> None:
    """An index of few terms, without features beside it, and no queries: all is made of it."""
    out = tmp_path / "o"
    run = sparta(*SPEED, index, "--out", out)
    text = run.output
    assert run.exit_code == 0, run.exception
    assert "Drawn of 21 photos: 30, 40 images of all terms; 40 images of 50, 100" not in text
    assert "Queries per second by images (table 2): drawn, top-n all, k 10, threads 1" in text
    assert {path.name for path in out.iterdir()} == {"speed.json", "speed.md", BY_SIZE}
    results = json.loads((out / "speed.json").read_text())
    assert {one["engine"] for one in results["records"]} == {*EXACT, "numpy"}
    assert results["about"]["images"]["top_n"] == 12
    report = (out / "speed.md").read_text()
    for part, option in (
        ("recall by top-n", "--captions FILE"),
        ("more than the 12 terms an image that the index keeps", "--features DIR"),
        ("a dense model's vectors", "--dense NAME"),
        ("other engines", "--engines faiss-flat,faiss-hnsw"),
    ):
        assert part in report and option in report


def test_features_and_captions(index: Path, data: Data, tmp_path: Path) -> None:
    options = ["--captions", data.captions_file, "--features", data.views[0].folder]
    options += ["--model", data.models[0], "--kind", "copies", "--top-n", "4,2,900,all"]
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
    assert "recall by top-n" not in results["missing"]


def test_the_command_over_an_index_with_dense_parts(index: Path, tmp_path: Path) -> None:
    texts = tmp_path / "queries.txt"
    texts.write_text("\n".join(TEXTS))
    command = [*SPEED, index, "--queries", texts, "--out", tmp_path, "--dense", "vse"]
    text = shown(*command, "--engines", "columns,bm25s,numpy", "--top-n", "5,3")
    assert "Encoding the text" in text and "numpy (vse)" in text
    results = json.loads((tmp_path / "speed.json").read_text())
    cells = {(one["engine"], one["vectors"], one["top_n"]) for one in results["records"]}
    sparse = {(name, None, n) for name in ("columns", "bm25s") for n in (5, 3)}
    assert cells == sparse | {("numpy", "vse", None)}
    assert {*results["encoders"]} == {"vse"}
    assert results["runs"][0]["arguments"]["top_n"] == "5,3"
    assert results["about"]["queries"] == {"count": 5, "from": "queries.txt"}
    shown(*command, "--engines", "bm25s", "--top-n", "5", "--kind", "mixed")
    results = json.loads((tmp_path / "speed.json").read_text())
    kinds = {(one["kind"], one["run"]) for one in results["records"]}
    assert kinds == {("drawn", 0), ("mixed", 1)}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--sizes", "10,x"], "--sizes: 'x' is not a number"),
        (["--dense", "vsx"], "no dense part 'vsx'"),
        (["--dense", "mv"], "it has 2 vectors an image"),
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
