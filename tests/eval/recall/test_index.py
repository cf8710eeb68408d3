"""Recall and first hits of an index, on answers known by hand, and runs read by a public tool."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import ir_measures
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from ir_measures import Success
from typer.testing import CliRunner

from eval.recall.index import (
    FirstHits,
    Gallery,
    IndexIds,
    JudgedQuery,
    measure_first_hits,
    measure_index_recall,
    read_judged_queries,
    strictly_falling,
    write_qrels,
    write_run,
)
from indexer.build import build_index
from indexer.care.combine import split_index
from indexer.dense.build import add_dense
from indexer.engines.open import open_backend, open_index
from indexer.query import Query, plain_text
from indexer.search.answer import Answer, Hit, Timings, Version
from indexer.search.searcher import Searcher
from indexer.settings import PruningSettings
from indexer.store.images import UnknownImageError
from indexer.update.images import delete_images
from sparta.captions.read import CaptionedPhoto
from sparta.command_line import cli
from sparta.errors import InputError
from sparta.features.store import FeatureStore
from sparta.metrics import recall
from tests.eval.data import Data, save_dense
from tests.indexer.vocabulary import WORDS


class RankedSearcher(Searcher):
    """Returns each query's images in the given order, all with the same score."""

    def __init__(self, answers: dict[str, list[str]], ids: Sequence[str]) -> None:
        self.answers, self.known = answers, ids
        self.searches: list[tuple[str, int]] = []
        self.substituted: set[bool] = set()

    def search(
        self, query: str | Query, k: int = 10, *, substitute: bool = True, **_: Any
    ) -> Answer:
        text = plain_text(query)
        self.searches.append((text, k))
        self.substituted.add(substitute)
        found = self.answers[text][:k]
        hits = [Hit(rank, image_id, 1.0, {}) for rank, image_id in enumerate(found, 1)]
        return Answer(hits, Timings(0.0, 2.0, 2.0 if k == 10 else 1000.0), Version(()))

    def metadata(self, image_id: str) -> dict[str, Any]:
        if image_id not in self.known:
            raise UnknownImageError(image_id)
        return {}

    def __len__(self) -> int:
        return len(self.known)


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
    found = measure_index_recall(Gallery(searcher, photos), lambda *step: seen.append(step))
    assert found.recall == (12.5, 37.5, 62.5, 8.0)  # the median lies between ranks 6 and 10
    assert (found.queries, found.images) == (8, 25)
    assert found.query_ms == 2.0 and found.seconds > 0
    assert seen == [("search", done, 8) for done in range(1, 9)]
    # More hits are asked for only where ten do not hold the image, and never in vain.
    assert searcher.searches[5:] == [("f", 10), ("f", 25), ("g", 10), ("g", 25), ("h", 10)]


@pytest.mark.parametrize("substitute", [True, False])
def test_substitutes_are_a_choice(substitute: bool, tmp_path: Path) -> None:
    searcher, photos = ranked(a=1, b=20)
    gallery = Gallery(searcher, photos, substitute)
    measure_index_recall(gallery)
    write_run(gallery, tmp_path / "run", 3, "tag")
    assert searcher.substituted == {substitute}


def test_the_median_counts_all_images() -> None:
    searcher, photos = ranked(a=25, b=24, c=3)
    assert measure_index_recall(Gallery(searcher, photos)).recall.median_rank == 24
    searcher, photos = ranked(a=None, b=None, c=3)
    assert measure_index_recall(Gallery(searcher, photos)).recall.median_rank == 26


@pytest.fixture(scope="module")
def index(
    tmp_path_factory: pytest.TempPathFactory, views: list[FeatureStore], models: list[Path]
) -> Path:
    out = tmp_path_factory.mktemp("index") / "index"
    build_index(views, models, out, device="cpu")
    return out


def test_command(index: Path, captions_file: Path, captioned: list[CaptionedPhoto]) -> None:
    searcher = open_index(index)
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
    for cell in ("R@10", "median rank", f"{found['recall']['at_10']:.1f}"):
        assert cell in run.stdout


def test_a_dense_backend_of_the_index(index: Path, data: Data, tmp_path: Path) -> None:
    """It finds what the model itself finds: the same inner products, asked one by one."""
    model = save_dense(tmp_path / "model")
    both = tmp_path / "index"
    shutil.copytree(index, both)
    add_dense(both, data.views[0], "vse++", model, device="cpu")
    options = ["--captions", str(data.captions_file), "--json"]
    asked = CliRunner().invoke(cli, ["eval", "index", *options, str(both), "--backend", "vse++"])
    assert asked.exit_code == 0, (asked.output, asked.exception)
    found = json.loads(asked.stdout)
    features = ["--features", str(data.views[0].folder), "--device", "cpu"]
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


def ids_of(index: Path) -> list[str]:
    """The ids of all images of an index."""
    with closing(open_index(index)) as searcher:
        return [*IndexIds(searcher, index)]


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
    found = measure_first_hits(
        IndexIds(searcher, Path()), queries, progress=lambda *step: steps.append(step)
    )
    assert found.right == {"x": 1, "y": 1}
    assert found.queries == {"x": 2, "y": 2}
    assert found.share == 50.0
    assert found.chance == pytest.approx(100 * (1 + 2 + 4 + 1) / 4 / 4)
    assert steps == [("search", done, 4) for done in range(1, 5)]
    assert searcher.searches == [(query.query, 1) for query in queries]


def test_malformed_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "queries.jsonl"
    with pytest.raises(InputError, match=r"queries\.jsonl: cannot be read"):
        read_judged_queries(path)
    path.write_text("")
    with pytest.raises(InputError, match=r"queries\.jsonl has no query"):
        read_judged_queries(path)
    for line in (
        '{"query": "a", "images": []}',
        '{"query": "a", "images": "x.jpg"}',
        '{"query": "a"}',
        '{"query": " ", "images": ["x.jpg"]}',
        "",
    ):
        path.write_text(f'{{"query": "a", "images": ["x"]}}\n{line}\n{{"query": "b"}}\n')
        with pytest.raises(InputError, match=re.escape(f"{path}, line 2: ")):
            read_judged_queries(path)
    path.write_text(" \n\n")
    with pytest.raises(InputError, match=r"queries\.jsonl has no query"):
        read_judged_queries(path)


def test_a_byte_order_mark_and_empty_last_lines_are_no_queries(tmp_path: Path) -> None:
    path = tmp_path / "queries.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"query": "a", "images": ["x.jpg"]}\r\n\r\n\n')
    assert read_judged_queries(path) == [judged("a", {"x.jpg"})]


def test_a_separator_within_a_line_ends_no_line(tmp_path: Path) -> None:
    path = tmp_path / "queries.jsonl"
    path.write_text('{"query": "a\u2028b", "images": ["x\u0085.jpg"]}\n', encoding="utf-8")
    assert read_judged_queries(path) == [judged("a\u2028b", {"x\u0085.jpg"})]


def test_command_of_queries(index: Path, tmp_path: Path) -> None:
    queries = tmp_path / "queries.jsonl"
    searcher = open_index(index)
    first = searcher.search("dog", 1).hits[0].image_id
    searcher.close()
    others = [one for one in ids_of(index) if one != first]
    lines = [
        {"query": "dog", "images": [first, first]},
        {"query": "dog", "images": others * 2, "kind": "wrong"},
    ]
    queries.write_text("".join(json.dumps(line) + "\n" for line in lines))
    arguments = ["eval", "queries", str(index), "--queries", str(queries)]
    run = CliRunner().invoke(cli, [*arguments, "--json"])
    assert run.exit_code == 0, run.output
    found = json.loads(run.stdout)
    assert found["right"] == {"query": 1, "wrong": 0}
    assert found["share"] == found["chance"] == 50.0
    run = CliRunner().invoke(cli, arguments, env={"COLUMNS": "200"})
    for cell in ("wrong", "100.0 %", "50.0 %"):
        assert cell in run.stdout


def ask(index: Path, tmp_path: Path, *lines: dict[str, Any], more: Sequence[str] = ()) -> Any:
    queries = tmp_path / "queries.jsonl"
    queries.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return CliRunner().invoke(
        cli, ["eval", "queries", str(index), "--queries", str(queries), *more]
    )


def test_ids_that_the_index_lacks_are_named_beside_its_own(index: Path, tmp_path: Path) -> None:
    known = ids_of(index)[:3]
    unknown = [{"query": "dog", "images": ["a", "b", "c", "d", "a"]}]
    mixed = [*unknown, {"query": "dog", "images": [known[0], "c"]}]
    for lines, wanted, option in ((unknown, 4, False), (mixed, 5, True)):
        refused = ask(index, tmp_path, *lines).exception
        assert isinstance(refused, InputError)
        assert f"lacks 4 of the {wanted} right images: 'a', 'b', 'c', …; it has " in str(refused)
        assert ", ".join(map(repr, known)) in str(refused)
        assert ("--allow-missing" in str(refused)) == option
    refused = ask(index, tmp_path, *unknown, more=["--allow-missing"]).exception
    assert isinstance(refused, InputError) and "lacks 4 of the 4" in str(refused)
    allowed = ask(index, tmp_path, *mixed, more=["--allow-missing", "--json"])
    found = json.loads(allowed.stdout)
    assert (found["queries"], found["missing"], found["left_out"]) == ({"query": 1}, 4, 1)
    assert found["chance"] == pytest.approx(100 / 21)
    shown = ask(index, tmp_path, *mixed, more=["--allow-missing"]).stdout
    assert "Missing: 4 right images; left out: 1 queries" in shown


def test_an_index_in_shards_answers_judged_queries(index: Path, tmp_path: Path) -> None:
    split_index(index, tmp_path / "divided", 3)
    lines = [{"query": text, "images": ids_of(index)[::2]} for text in WORDS[:7]]
    whole, divided = (
        json.loads(ask(one, tmp_path, *lines, more=["--json"]).stdout)
        for one in (index, tmp_path / "divided")
    )
    assert divided["right"] == whole["right"]


@given(st.data())
@settings(max_examples=50, deadline=None)
def test_chance_is_at_most_100_percent(drawn: st.DataObject) -> None:
    ids = [str(number) for number in range(drawn.draw(st.integers(1, 5)))]
    searcher = RankedSearcher({"a": ids}, ids)
    some = st.lists(st.sampled_from(ids), min_size=1).map(lambda one: judged("a", set(one)))
    found = measure_first_hits(IndexIds(searcher, Path()), drawn.draw(st.lists(some, min_size=1)))
    assert isinstance(found, FirstHits) and 0 < found.chance <= 100


# ---- a split of an index -------------------------------------------------------------------------


def captions_of(folder: Path, photos: Sequence[CaptionedPhoto], *missing: str) -> Path:
    """A file with the captions of some photos, and of others."""
    path = folder / "captions.jsonl"
    others = [CaptionedPhoto(one, "val", ("a dog",)) for one in missing]
    path.write_text(
        "".join(
            json.dumps({"image": one.image_id, "split": one.split, "captions": one.captions}) + "\n"
            for one in [*others, *photos]
        )
    )
    return path


def measured(index: Path, captions: Path, *options: str) -> Any:
    arguments = ["eval", "index", str(index), "--captions", str(captions), *options]
    return CliRunner().invoke(cli, arguments, env={"COLUMNS": "200"})


def test_missing_photos_are_named_and_may_be_left_out(
    index: Path, captioned: list[CaptionedPhoto], tmp_path: Path
) -> None:
    own = json.loads(measured(index, captions_of(tmp_path, captioned), "--json").stdout)
    assert own["missing"] == 0
    captions = captions_of(tmp_path, captioned, "x.jpg", "y.jpg")
    refused = measured(index, captions)
    assert isinstance(refused.exception, InputError)
    for part in ("lacks 2 of the 23 captioned photos: 'x.jpg', 'y.jpg'; it has '0/", "--allow-mis"):
        assert part in str(refused.exception)
    run, qrels = tmp_path / "run", tmp_path / "qrels"
    files = ["--run", str(run), "--qrels", str(qrels)]
    found = json.loads(measured(index, captions, "--allow-missing", "--json", *files).stdout)
    assert (found["missing"], found["photos"]) == (2, 21)
    for name in ("recall", "queries", "images"):
        assert found[name] == own[name], name
    assert "x.jpg" not in run.read_text() + qrels.read_text()
    shown = measured(index, captions, "--allow-missing").stdout
    assert "Missing and left out: 2 of 23 photos of the split" in shown
    none = measured(index, captions_of(tmp_path, [], "x.jpg", "y.jpg"), "--allow-missing")
    assert isinstance(none.exception, InputError)
    assert "lacks 2 of the 2 captioned photos" in str(none.exception)
    assert "--allow-missing" not in str(none.exception)


@pytest.mark.parametrize("backend", ["sparta", "vse++"])
def test_captions_may_name_photos_otherwise(
    backend: str, index: Path, data: Data, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    both = tmp_path / "index"
    shutil.copytree(index, both)
    add_dense(both, data.views[0], "vse++", save_dense(tmp_path / "model"), device="cpu")
    files = {name: tmp_path / name for name in ("run", "qrels")}
    more = [part for name, path in files.items() for part in (f"--{name}", str(path))]
    bare = [replace(one, image_id=one.image_id.removesuffix(".jpg")) for one in data.captioned]
    options = ["--backend", backend, "--json"]
    known = measured(both, captions_of(tmp_path, data.captioned), *options)
    other = measured(both, captions_of(tmp_path, bare), "--only-split", *options, *more)
    assert json.loads(known.stdout)["recall"] == json.loads(other.stdout)["recall"]
    assert caplog.messages == [f"{both}: captions and images are matched by path without suffix"]
    lines = [line for path in files.values() for line in path.read_text().splitlines()]
    assert {line.split()[2] for line in lines} == set(data.views[0].ids)
    asked = {"query": "dog", "images": [bare[0].image_id]}
    assert json.loads(ask(both, tmp_path, asked, more=["--json"]).stdout)["missing"] == 0


def test_the_gallery_is_named(index: Path, captioned: list[CaptionedPhoto], tmp_path: Path) -> None:
    captions = captions_of(tmp_path, [replace(one, split="[b]x") for one in captioned[:6]])
    split = ["--split", "[b]x"]
    shown = measured(index, captions, *split).stdout
    assert "6 photos of split [b]x ranked among 21\n" in re.sub(" +\n", "\n", shown)
    assert "--only-split ranks them among themselves" in shown
    shown = measured(index, captions, *split, "--only-split").stdout
    assert "6 photos of split [b]x ranked among 6\n" in re.sub(" +\n", "\n", shown)
    assert "--only-split ranks" not in shown
    found = json.loads(measured(index, captions, *split, "--json").stdout)
    assert (found["photos"], found["images"], found["split"]) == (6, 21, "[b]x")


def slow_ranks(index: Path, photos: Sequence[CaptionedPhoto], backend: str) -> list[int]:
    """Each caption's rank of its photo among these photos, from a search of the whole index."""
    own, ranks = {photo.image_id for photo in photos}, []
    searcher = open_backend(index, backend)
    for photo in photos:
        for text in photo.captions:
            hits = searcher.search(Query.plain(text), len(searcher), substitute=False).hits
            ids = [hit.image_id for hit in hits if hit.image_id in own]
            ranks.append(
                ids.index(photo.image_id) + 1 if photo.image_id in ids else max(len(own), 10) + 1
            )
    searcher.close()
    return ranks


@pytest.mark.parametrize("kind", ["built", "live", "shards", "dense"])
def test_only_the_split_against_a_slow_reference(
    kind: str, tied: Path, data: Data, tmp_path: Path
) -> None:
    index, backend, photos = tmp_path / "index", "sparta", data.captioned[1::2]
    (split_index(tied, index, 3) if kind == "shards" else shutil.copytree(tied, index))
    if kind == "dense":
        backend = "a"
        add_dense(index, data.views[0], backend, save_dense(tmp_path / "model"), device="cpu")
    if kind in ("live", "dense"):
        delete_images(index, [data.captioned[0].image_id])
    before = {one: one.read_bytes() for one in index.rglob("*") if one.is_file()}
    expected = recall(torch.tensor(slow_ranks(index, photos, backend)))
    captions, run = captions_of(tmp_path, photos), tmp_path / "run"
    options = ["--only-split", "--backend", backend, "--no-substitute", "--json"]
    answer = measured(index, captions, *options, "--run", str(run))
    assert answer.exit_code == 0, (answer.output, answer.exception)
    found = json.loads(answer.stdout)
    assert found["recall"] == pytest.approx(expected._asdict())
    assert (found["photos"], found["images"]) == (10, 10)
    hits = {line.split()[2] for line in run.read_text().splitlines()}
    assert hits == {photo.image_id for photo in photos}
    whole = json.loads(measured(index, captions, *options[1:]).stdout)
    assert whole["recall"] != found["recall"]
    # The index is as it was.
    assert {one: one.read_bytes() for one in index.rglob("*") if one.is_file()} == before


@pytest.fixture(scope="module")
def tied(
    tmp_path_factory: pytest.TempPathFactory, views: list[FeatureStore], models: list[Path]
) -> Path:
    """Impacts of two bits, so that many images tie."""
    out = tmp_path_factory.mktemp("trec") / "index"
    build_index(views, models, out, PruningSettings(bits=2), device="cpu")
    return out


def success(run: Path, qrels: Path) -> dict[int, float]:
    measures = {k: Success @ k for k in (1, 5, 10)}
    found = ir_measures.calc_aggregate(
        list(measures.values()),
        list(ir_measures.read_trec_qrels(str(qrels))),
        list(ir_measures.read_trec_run(str(run))),
    )
    return {k: 100 * found[measure] for k, measure in measures.items()}


def test_ir_measures_finds_our_recall(tied: Path, captions_file: Path, tmp_path: Path) -> None:
    run, qrels = tmp_path / "out.trec", tmp_path / "out.qrels"
    arguments = ["eval", "index", str(tied), "--captions", str(captions_file), "--json"]
    found = CliRunner().invoke(cli, [*arguments, "--run", str(run), "--qrels", str(qrels)])
    assert found.exit_code == 0, found.output
    ours = json.loads(found.stdout)["recall"]
    theirs = success(run, qrels)
    assert {k: ours[f"at_{k}"] for k in (1, 5, 10)} == pytest.approx(theirs)
    assert 0 < theirs[1] < theirs[10]
    lines = [line.split(" ") for line in run.read_text().splitlines()]
    assert {len(line) for line in lines} == {6} and {line[-1] for line in lines} == {"sparta"}


def test_ties_keep_our_order_and_ids_have_no_spaces(tmp_path: Path) -> None:
    """A tool that breaks ties by document id in descending order would turn all of these round."""
    ids = [f"a folder/{number:02d} é#.jpg" for number in range(12)]
    photos = [CaptionedPhoto(image_id, "val", (f"query {image_id}",)) for image_id in ids]
    searcher = RankedSearcher({photo.captions[0]: ids for photo in photos}, ids)
    run, qrels = tmp_path / "out.trec", tmp_path / "out.qrels"
    write_run(Gallery(searcher, photos), run, depth=10, tag="a tag")
    write_qrels(Gallery(searcher, photos), qrels)
    expected = recall(torch.arange(1, 13))
    assert success(run, qrels) == pytest.approx(dict(zip((1, 5, 10), expected, strict=False)))
    rows = [line.split(" ") for line in run.read_text(encoding="ascii").splitlines()]
    assert len(rows) == 120
    assert [unquote(row[2]) for row in rows[:10]] == ids[:10]
    assert unquote(rows[0][0]) == f"{ids[0]}#0" and rows[0][-1] == "a%20tag"


@settings(max_examples=100, deadline=None)
@given(st.lists(st.one_of(st.integers(0, 20), st.floats(-1, 1, width=32)), max_size=30))
def test_scores_fall_strictly_and_stay_close(scores: list[float]) -> None:
    ordered = sorted(scores, reverse=True)
    found = strictly_falling(ordered)
    assert all(first > second for first, second in pairwise(found))
    np.testing.assert_allclose(found, ordered, rtol=1e-5, atol=1e-5)
    printed = [np.float32(f"{score:.9g}") for score in found]
    assert all(first > second for first, second in pairwise(printed))


def test_a_folder_that_is_not_there_is_refused_before_searching(
    tied: Path, captions_file: Path, tmp_path: Path
) -> None:
    arguments = ["eval", "index", str(tied), "--captions", str(captions_file)]
    for option in ("--run", "--qrels"):
        found = CliRunner().invoke(cli, [*arguments, option, str(tmp_path / "no" / "out")])
        assert isinstance(found.exception, InputError)
        assert f"{option} {tmp_path}" in str(found.exception)
