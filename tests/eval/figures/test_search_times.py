import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from eval.figures.gallery import Gallery
from eval.figures.search_times import measure_times, time_searches
from eval.recall.model_recall import open_members
from eval.recall.models import DenseModel, SparseModel
from indexer.build import build_index
from indexer.encoding.term_scores import ImageEncoder
from indexer.encoding.torch_scorer import TorchScorer
from indexer.query.query import Query
from indexer.search.api import SearchResult, Timings
from indexer.search.lucene import LuceneSearcher
from indexer.settings import PruningSettings
from sparta.command_line import cli
from sparta.errors import InputError
from sparta.features.store import FeatureStore
from tests.eval.dense_models import save_dense
from tests.indexer.tiny_dense import slow_scores

QUERIES = ["dog cat", "the red ball", "two dogs run", "beach"]


@pytest.fixture
def dense(tmp_path: Path) -> Path:
    return save_dense(tmp_path / "dense", views=2)


@pytest.fixture
def gallery(models: list[Path], views: list[FeatureStore], dense: Path) -> Gallery:
    names = [str(models[0]), str(dense)]
    sparse, vectors = open_members(names, [views[0].folder], False, "cpu")
    assert isinstance(sparse.model, SparseModel) and isinstance(vectors.model, DenseModel)
    model = sparse.model
    encoder = ImageEncoder([TorchScorer(model.model)], model.tokenizer, [views[0]], 4, "trained")
    return Gallery.of(encoder, vectors.model, 1000, 12, lambda stage, done, total: None)


def scores(searcher: LuceneSearcher, query: str) -> dict[str, float]:
    return {hit.image_id: hit.score for hit in searcher.search(query, len(searcher)).hits}


def test_the_inverted_index_is_that_of_sparta_index(
    gallery: Gallery, models: list[Path], views: list[FeatureStore], tmp_path: Path
) -> None:
    gallery.write(tmp_path / "gallery", 50)
    build_index(
        [views[0]], [models[0]], tmp_path / "index", PruningSettings(top_n=12), device="cpu"
    )
    large, plain = LuceneSearcher(tmp_path / "gallery"), LuceneSearcher(tmp_path / "index")
    assert (len(large), len(plain)) == (50, 21)
    for query in QUERIES:
        expected = scores(plain, query)
        assert scores(large, query) == {
            f"{number:09d}": expected[views[0].ids[number % 21]]
            for number in range(50)
            if views[0].ids[number % 21] in expected
        }
    large.close()
    plain.close()


def test_the_vectors_are_those_of_the_model(
    gallery: Gallery, dense: Path, views: list[FeatureStore]
) -> None:
    collected = gallery.collect(50)
    assert len(collected) == 50
    for query in QUERIES:
        text = gallery.dense.model.embed_texts([query])[0].numpy()
        expected = slow_scores(dense, views[0], query)
        found = collected.scores(text)
        for number in range(50):
            assert found[number] == pytest.approx(np.array(expected[number % 21]), abs=1e-5)


def test_times_of_both_searchers(gallery: Gallery) -> None:
    found = measure_times(gallery, QUERIES, [5, 30], 3)
    names = [(one.images, one.searcher) for one in found]
    assert names == [(n, name) for n in (5, 30) for name in ("VisualSparta", "vse++")]
    for one in found:
        assert (one.encode > 0) == (one.searcher == "vse++")
        assert 0 < one.search < one.total and one.encode < one.total
    with pytest.raises(InputError, match="1 queries: give at least two"):
        measure_times(gallery, QUERIES[:1], [5], 3)


class Clock:
    """A searcher of 7 images whose times are known."""

    def __init__(self, timings: dict[str, Timings]) -> None:
        self.timings = timings

    def search(self, query: Query, k: int = 10) -> SearchResult:
        return SearchResult([], [], self.timings[query.text])

    def __len__(self) -> int:
        return 7


def test_the_second_half_is_timed_and_its_median_taken() -> None:
    totals = [100.0, 200.0, 5.0, 3.0, 40.0]
    timings = {str(t): Timings(0.0, t / 2, t, encode_ms=t / 4) for t in totals}
    found = time_searches("clock", Clock(timings), list(timings), 3)  # type: ignore[arg-type]
    assert (found.images, found.searcher) == (7, "clock")
    assert (found.encode, found.search, found.total) == (1.25, 2.5, 5.0)


def test_command(
    models: list[Path], dense: Path, views: list[FeatureStore], tmp_path: Path
) -> None:
    queries, out = tmp_path / "queries.txt", tmp_path / "times.png"
    queries.write_text("\n".join(QUERIES))
    arguments = ["figure", "gallery", str(views[0].folder), "--queries", str(queries)]
    arguments += ["--sizes", "30,10", "--out", str(out)]
    both = ["--model", str(models[0]), "--dense", str(dense)]
    done = CliRunner().invoke(cli, [*arguments, *both])
    assert done.exit_code == 0, (done.output, done.exception)
    assert out.read_bytes().startswith(b"\x89PNG")
    found = json.loads(out.with_suffix(".json").read_text())
    assert (found["distinct_images"], found["queries"]) == (21, 4)
    assert [one["images"] for one in found["times"]] == [10, 10, 30, 30]
    swapped = ["--model", str(dense), "--dense", str(models[0])]
    for more, message in (
        (swapped, "must be a VisualSparta"),
        ([*both, "--sizes", "10,many"], "--sizes: 'many' is not a number from 1"),
    ):
        error = CliRunner().invoke(cli, [*arguments, *more]).exception
        assert isinstance(error, InputError) and message in str(error)
