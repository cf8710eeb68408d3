"""Recall through a searcher, on ranks known by hand and on a real index."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from eval.recall.index_recall import measure_index_recall
from eval.recall.trec import write_run
from indexer.build import build_index
from indexer.dense.build import add_dense
from indexer.search.lucene import LuceneSearcher
from sparta.captions.read import CaptionedPhoto
from sparta.command_line import cli
from sparta.errors import InputError
from sparta.features.store import FeatureStore
from tests.eval.dense_models import save_dense
from tests.eval.recall.ranked import RankedSearcher


def ranked(**places: int | None) -> tuple[RankedSearcher, list[CaptionedPhoto]]:
    """A query for image "0" per place, among 25 images; None: not found."""
    others = [str(i) for i in range(1, 25)]
    answers = {
        query: others[:3] if place is None else [*others[: place - 1], "0", *others[place - 1 :]]
        for query, place in places.items()
    }
    return RankedSearcher(answers, [str(i) for i in range(25)]), [
        CaptionedPhoto("0", "val", tuple(places))
    ]


def test_ranks_known_by_hand() -> None:
    searcher, photos = ranked(a=1, b=2, c=5, d=6, e=10, f=11, g=25, h=None)
    seen: list[tuple[object, ...]] = []
    found = measure_index_recall(searcher, photos, progress=lambda *step: seen.append(step))
    assert found.recall == (12.5, 37.5, 62.5, 8.0)  # the median lies between ranks 6 and 10
    assert (found.queries, found.images) == (8, 25)
    assert found.query_ms == 2.0 and found.seconds > 0
    assert seen == [("search", done, 8) for done in range(1, 9)]
    # More hits are asked for only where ten do not hold the image, and never in vain.
    assert searcher.searches[5:] == [("f", 10), ("f", 25), ("g", 10), ("g", 25), ("h", 10)]


@pytest.mark.parametrize("substitute", [True, False])
def test_substitutes_are_a_choice(substitute: bool, tmp_path: Path) -> None:
    searcher, photos = ranked(a=1, b=20)
    measure_index_recall(searcher, photos, substitute=substitute)
    write_run(searcher, photos, tmp_path / "run", 3, "tag", substitute)
    assert searcher.substituted == {substitute}


def test_the_median_counts_all_images() -> None:
    searcher, photos = ranked(a=25, b=24, c=3)
    assert measure_index_recall(searcher, photos).recall.median_rank == 24
    searcher, photos = ranked(a=None, b=None, c=3)
    assert measure_index_recall(searcher, photos).recall.median_rank == 26


def test_depth_bounds_the_search() -> None:
    searcher, photos = ranked(a=3, b=4, c=20)
    found = measure_index_recall(searcher, photos, depth=3)
    assert found.recall == (0, pytest.approx(100 / 3), pytest.approx(100 / 3), 11)
    assert {k for _, k in searcher.searches} == {3}


def test_every_image_of_the_index_takes_part() -> None:
    searcher, _ = ranked(a=1)
    searcher.answers = {"zero": ["7", "0"], "one": ["1"], "again": ["1", "2"]}
    photos = [CaptionedPhoto("0", "val", ("zero",)), CaptionedPhoto("1", "val", ("one", "again"))]
    assert measure_index_recall(searcher, photos).recall.at_1 == pytest.approx(200 / 3)


def test_photos_that_are_not_indexed_are_refused() -> None:
    searcher, photos = ranked(a=1)
    photos += [CaptionedPhoto("x.jpg", "val", ("a",)), CaptionedPhoto("y.jpg", "val", ("a",))]
    with pytest.raises(InputError, match=r"2 of 3 captioned .* not in the index, 'x\.jpg'"):
        measure_index_recall(searcher, photos)


@pytest.fixture(scope="module")
def index(
    tmp_path_factory: pytest.TempPathFactory, views: list[FeatureStore], models: list[Path]
) -> Path:
    out = tmp_path_factory.mktemp("index") / "index"
    build_index(views, models, out, device="cpu")
    return out


def test_command(index: Path, captions_file: Path, captioned: list[CaptionedPhoto]) -> None:
    searcher = LuceneSearcher(index)
    ranks = []
    for photo in captioned:
        for text in photo.captions:
            ids = [hit.image_id for hit in searcher.search(text, 21).hits]
            ranks.append(ids.index(photo.image_id) + 1 if photo.image_id in ids else 22)
    searcher.close()
    arguments = ["eval", "index", str(index), "--captions", str(captions_file)]
    run = CliRunner().invoke(cli, [*arguments, "--json"])
    assert run.exit_code == 0, run.output
    found = json.loads(run.stdout)
    for k in (1, 5, 10):
        assert found["recall"][f"at_{k}"] == pytest.approx(100 * sum(r <= k for r in ranks) / 42)
    assert (found["queries"], found["images"]) == (42, 21)
    run = CliRunner().invoke(cli, arguments, env={"COLUMNS": "200"})
    assert run.exit_code == 0, run.output
    for cell in (
        "R@10",
        "median rank",
        "42",
        "21",
        "ms per query",
        f"{found['recall']['at_10']:.1f}",
    ):
        assert cell in run.stdout


def test_a_dense_backend_of_the_index(
    index: Path,
    views: list[FeatureStore],
    captions_file: Path,
    captioned: list[CaptionedPhoto],
    tmp_path: Path,
) -> None:
    """It finds what the model itself finds: the same inner products, asked one by one."""
    model = save_dense(tmp_path / "model")
    both = tmp_path / "index"
    shutil.copytree(index, both)
    add_dense(both, views[0], "vse++", model, device="cpu")
    options = ["--captions", str(captions_file), "--json"]
    asked = CliRunner().invoke(cli, ["eval", "index", *options, str(both), "--backend", "vse++"])
    assert asked.exit_code == 0, (asked.output, asked.exception)
    found = json.loads(asked.stdout)
    features = ["--features", str(views[0].folder), "--device", "cpu"]
    direct = CliRunner().invoke(cli, ["eval", "model", *options, str(model), *features])
    assert found["recall"] == pytest.approx(json.loads(direct.stdout)["text_to_image"])
    assert (found["queries"], found["images"]) == (42, 21)
    asked = CliRunner().invoke(cli, ["eval", "index", *options, str(both), "--backend", "gpo"])
    assert isinstance(asked.exception, InputError) and "gpo" in str(asked.exception)


def test_command_with_the_wrong_split(index: Path, captions_file: Path) -> None:
    arguments = ["eval", "index", str(index), "--captions", str(captions_file), "--split"]
    run = CliRunner().invoke(cli, [*arguments, "other"])
    assert isinstance(run.exception, InputError) and "elsewhere.jpg" in str(run.exception)
    run = CliRunner().invoke(cli, [*arguments, "nowhere"])
    assert isinstance(run.exception, InputError) and "nowhere" in str(run.exception)
