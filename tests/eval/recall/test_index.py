"""Recall and first hits of an index, on answers known by hand, and runs read by a public tool."""

import json
import random
import re
import shutil
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import ir_measures
import pytest
import torch
from ir_measures import Success

import sparta
from eval.recall.index import (
    IndexIds,
    JudgedQuery,
    read_judged_queries,
)
from eval.recall.model import open_members, scores_of
from eval.recall.scores import mean_scores
from indexer.answer import Answer
from indexer.build import build_index
from indexer.dense.build import add_dense
from indexer.engines.open import open_backend, open_index
from indexer.maintenance.combine import split_index
from indexer.query import Query
from indexer.search.searcher import Searcher
from indexer.settings import PruningSettings
from indexer.update.images import delete_images
from server.app import create_app
from server.backends import open_backends
from sparta.captions.read import CaptionedPhoto
from sparta.errors import InputError
from sparta.features.store import FeatureStore
from sparta.metrics import recall
from sparta.progress import no_progress
from tests.eval.data import Data, record, refused, save_dense, shown, write_captions
from tests.indexer.random_postings import random_postings, write_postings
from tests.indexer.vocabulary import EVERY_WORD, TOKENIZER, WORDS
from tests.server.apps import client_of, settings
from tests.server.fake import DRAWINGS


@pytest.fixture(scope="module")
def index(
    tmp_path_factory: pytest.TempPathFactory, views: list[FeatureStore], models: list[Path]
) -> Path:
    """Impacts of two bits, so that many images tie."""
    out = tmp_path_factory.mktemp("index") / "index"
    build_index(views, models, out, PruningSettings(bits=2), device="cpu")
    return out


def recall_of(index: Path, captions: Path, *options: object) -> Any:
    return record("eval", "index", index, "--captions", captions, *options)


@pytest.mark.parametrize("options", [[], ["--no-substitute"]], ids=str)
def test_substitutes_are_a_choice(
    options: list[str], index: Path, data: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    search, chosen = Searcher.search, set[bool]()

    def noted(searcher: Searcher, *arguments: Any, substitute: bool, **options: Any) -> Answer:
        chosen.add(substitute)
        return search(searcher, *arguments, substitute=substitute, **options)

    monkeypatch.setattr(Searcher, "search", noted)
    found = recall_of(index, data.captions_file, *options, "--run", tmp_path / "run")
    assert chosen == {not options} and found["queries"] == 42


MARKS = [" ", " ", ", ", " . ", " ... ", " | ", " - ", "! ", '" ']
FRAMES = ["", "", "Show me ", "a photo of ", "Pictures of the "]


def test_a_run_has_the_hits_of_a_server(tmp_path: Path) -> None:
    """Of captions with punctuation, frames and unknown words, by REST, Python and counts."""
    postings = random_postings(TOKENIZER, 200)
    write_postings(tmp_path / "index", [postings], TOKENIZER, lucene=False)
    chance, photos = random.Random(0), []
    for one in postings:
        texts = []
        for _ in range(5):
            words = chance.choices([*EVERY_WORD, "dags"], k=5)
            said = (word + chance.choice(MARKS) for word in words)
            texts.append(chance.choice(FRAMES) + "".join(said))
        photos.append(CaptionedPhoto(one.image_id, "val", tuple(texts)))
    captions = write_captions(tmp_path / "captions.jsonl", photos)
    recall_of(tmp_path / "index", captions, "--run", tmp_path / "run")
    run: dict[str, list[str]] = {}
    for line in (tmp_path / "run").read_text().splitlines():
        query, _, document, *_ = line.split()
        run.setdefault(query, []).append(unquote(document))
    index = sparta.open(tmp_path / "index")
    impacts = {one.image_id: dict(zip(one.terms, one.impacts, strict=True)) for one in postings}
    chosen = settings(index=tmp_path / "index")
    with client_of(create_app(open_backends(chosen), chosen)) as client:
        for photo in photos:
            for number, text in enumerate(photo.captions):
                answer = client.get("/v1/search", params={"q": text}).json()
                own = [hit["image_id"] for hit in answer["hits"]]
                run_hits = run.get(f"{quote(photo.image_id, safe='/')}#{number}", [])
                assert own == run_hits[: len(own)], text
                hits = index.search(text).hits
                assert own == [hit.id for hit in hits]
                counts = {TOKENIZER.ids[one]: n for one, n in index.terms(text).items()}
                for hit in hits:
                    own_terms = impacts[hit.id]
                    assert hit.score == sum(n * own_terms.get(t, 0) for t, n in counts.items())


# ---- judged queries ------------------------------------------------------------------------------


def ids_of(index: Path) -> list[str]:
    """The ids of all images of an index."""
    with closing(open_index(index)) as searcher:
        return [*IndexIds(searcher, index)]


def judged(query: str, images: set[str], kind: str = "query") -> JudgedQuery:
    return JudgedQuery(query=query, images=frozenset(images), kind=kind)


def test_files_of_queries(tmp_path: Path) -> None:
    path = tmp_path / "queries.jsonl"
    with pytest.raises(InputError, match=r"queries\.jsonl: cannot be read"):
        read_judged_queries(path)
    path.write_text(" \n\n")
    with pytest.raises(InputError, match=r"queries\.jsonl has no query"):
        read_judged_queries(path)
    for line in (
        '{"query": "a", "images": []}',
        '{"query": "a"}',
        '{"query": " ", "images": ["x"]}',
    ):
        path.write_text(f'{{"query": "a", "images": ["x"]}}\n{line}\n{{"query": "b"}}\n')
        with pytest.raises(InputError, match=re.escape(f"{path}, line 2: ")):
            read_judged_queries(path)
    # A byte order mark and empty last lines are no queries, a separator within a line ends none.
    line = '{"query": "a\u2028b", "images": ["x\u0085.jpg"]}'
    path.write_bytes(b"\xef\xbb\xbf" + line.encode() + b"\r\n\r\n\n")
    assert read_judged_queries(path) == [judged("a\u2028b", {"x\u0085.jpg"})]


def asked(tmp_path: Path, *lines: dict[str, Any]) -> list[object]:
    """The options that name a file of queries."""
    queries = tmp_path / "queries.jsonl"
    queries.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return ["--queries", queries]


def test_judged_queries_of_an_index_and_its_shards(index: Path, tmp_path: Path) -> None:
    with closing(open_index(index)) as searcher:
        first = searcher.search("dog", 1).hits[0].image_id
    others = [one for one in ids_of(index) if one != first]
    wrong = {"query": "dog", "images": others * 2, "kind": "wrong"}
    options = asked(tmp_path, {"query": "dog", "images": [first, first]}, wrong)
    found = record("eval", "index", index, *options)
    assert found["right"] == {"query": 1, "wrong": 0}
    assert found["share"] == found["chance"] == 50.0
    for cell in ("wrong", "100.0 %", "50.0 %"):
        assert cell in shown("eval", "index", index, *options)
    split_index(index, tmp_path / "divided", 3)
    lines = [{"query": text, "images": ids_of(index)[::2]} for text in WORDS[:7]]
    whole, divided = (
        record("eval", "index", one, *asked(tmp_path, *lines))
        for one in (index, tmp_path / "divided")
    )
    assert divided["right"] == whole["right"]


def test_ids_that_the_index_lacks_are_named_beside_its_own(index: Path, tmp_path: Path) -> None:
    known, command = ids_of(index)[:3], ("eval", "index", index)
    unknown = [{"query": "dog", "images": ["a", "b", "c", "d", "a"]}]
    mixed = [*unknown, {"query": "dog", "images": [known[0], "c"]}]
    for lines, wanted, option in ((unknown, 4, False), (mixed, 5, True)):
        lacks = f"lacks 4 of the {wanted} right images: 'a', 'b', 'c', …; it has "
        said = refused(lacks, *command, *asked(tmp_path, *lines))
        assert ", ".join(map(repr, known)) in said and ("--allow-missing" in said) == option
    refused("lacks 4 of the 4", *command, *asked(tmp_path, *unknown), "--allow-missing")
    options = [*asked(tmp_path, *mixed), "--allow-missing"]
    found = record(*command, *options)
    assert (found["queries"], found["missing"], found["left_out"]) == ({"query": 1}, 4, 1)
    assert found["chance"] == pytest.approx(100 / 21)
    assert "Missing: 4 right images; left out: 1 queries" in shown(*command, *options)


def test_queries_are_asked_of_the_backend_that_is_named(index: Path, tmp_path: Path) -> None:
    options = asked(tmp_path, {"query": "dog", "images": ids_of(index)[:1]})
    refused("no dense part 'vsx'", "eval", "index", index, *options, "--backend", "vsx")


# ---- a split of an index -------------------------------------------------------------------------


def test_missing_photos_are_named_and_may_be_left_out(
    index: Path, captioned: list[CaptionedPhoto], tmp_path: Path
) -> None:
    own = recall_of(index, write_captions(tmp_path / "c.jsonl", captioned))
    gone = [CaptionedPhoto(one, "val", ("a dog",)) for one in ("x.jpg", "y.jpg")]
    command = ["eval", "index", index, "--captions"]
    some = write_captions(tmp_path / "some.jsonl", [*gone, *captioned])
    lacks = "lacks 2 of the 23 captioned photos: 'x.jpg', 'y.jpg'; it has '0/"
    assert "--allow-missing" in refused(lacks, *command, some)
    run, qrels = tmp_path / "run", tmp_path / "run.qrels"
    found = recall_of(index, some, "--allow-missing", "--run", run)
    assert (own["missing"], found["missing"], found["photos"]) == (0, 2, 21)
    for name in ("recall", "queries", "images"):
        assert found[name] == own[name], name
    assert "x.jpg" not in run.read_text() + qrels.read_text()
    text = shown(*command, some, "--allow-missing")
    assert "Missing and left out: 2 of 23 photos of the split" in text
    none = [*command, write_captions(tmp_path / "none.jsonl", gone), "--allow-missing"]
    assert "--allow-missing" not in refused("lacks 2 of the 2 captioned photos", *none)


@pytest.mark.parametrize("backend", ["sparta", "vse++"])
def test_captions_may_name_photos_otherwise(
    backend: str, index: Path, data: Data, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    both = shutil.copytree(index, tmp_path / "index")
    add_dense(both, data.views[0], "vse++", save_dense(tmp_path / "model"), device="cpu")
    run, qrels = tmp_path / "run", tmp_path / "run.qrels"
    bare = [replace(one, image_id=one.image_id.removesuffix(".jpg")) for one in data.captioned]
    options = ["--backend", backend]
    known = recall_of(both, data.captions_file, *options)
    captions = write_captions(tmp_path / "c.jsonl", bare)
    other = recall_of(both, captions, "--only-split", *options, "--run", run)
    assert known["recall"] == other["recall"]
    assert caplog.messages == [f"{both}: captions and images are matched by path without suffix"]
    lines = [line for path in (run, qrels) for line in path.read_text().splitlines()]
    assert {line.split()[2] for line in lines} == set(data.views[0].ids)
    query = {"query": "dog", "images": [bare[0].image_id]}
    assert record("eval", "index", both, *asked(tmp_path, query))["missing"] == 0


def slow_ranks(
    index: Path, photos: Sequence[CaptionedPhoto], backend: str, among: Sequence[str]
) -> torch.Tensor:
    """Each caption's rank of its photo among some images, from a search of the whole index."""
    ranks = []
    with closing(open_backend(index, backend)) as searcher:
        for photo in photos:
            for text in photo.captions:
                hits = searcher.search(Query.plain(text), len(searcher), substitute=False).hits
                ids = [hit.image_id for hit in hits if hit.image_id in among]
                last = max(len(among), 10) + 1
                ranks.append(ids.index(photo.image_id) + 1 if photo.image_id in ids else last)
    return torch.tensor(ranks)


@pytest.mark.parametrize("kind", ["built", "live", "shards", "dense"])
def test_recall_against_loops(kind: str, index: Path, data: Data, tmp_path: Path) -> None:
    own, backend, photos = tmp_path / "index", "sparta", data.captioned[1::2]
    (split_index(index, own, 3) if kind == "shards" else shutil.copytree(index, own))
    if kind == "dense":
        backend = "a"
        add_dense(own, data.views[0], backend, save_dense(tmp_path / "model"), device="cpu")
    if kind in ("live", "dense"):
        delete_images(own, [data.captioned[0].image_id])
    before = {one: one.read_bytes() for one in own.rglob("*") if one.is_file()}
    captions, run = write_captions(tmp_path / "captions.jsonl", photos), tmp_path / "run"
    options = ["--backend", backend, "--no-substitute"]
    found = recall_of(own, captions, *options, "--only-split", "--run", run)
    ids = [photo.image_id for photo in photos]
    expected = recall(slow_ranks(own, photos, backend, ids))
    assert found["recall"] == pytest.approx(expected._asdict())
    assert (found["photos"], found["images"]) == (10, 10)
    assert {line.split()[2] for line in run.read_text().splitlines()} == set(ids)
    whole = recall_of(own, captions, *options)
    every = ids_of(own)
    expected = recall(slow_ranks(own, photos, backend, every))
    assert whole["recall"] == pytest.approx(expected._asdict()) and whole["images"] == len(every)
    assert whole["recall"] != found["recall"]
    # The index is as it was.
    assert {one: one.read_bytes() for one in own.rglob("*") if one.is_file()} == before


def test_an_ensemble_is_served_as_it_is_measured(index: Path, data: Data, tmp_path: Path) -> None:
    """1,000 texts have the same similarities, so the same hits but for those nearly alike."""
    own, store = shutil.copytree(index, tmp_path / "index"), data.views[0]
    models = [save_dense(tmp_path / str(views), views, views=views) for views in (1, 3)]
    for model in models:
        add_dense(own, store, f"vse{model.name}", model, device="cpu")
    chance, ids = random.Random(0), ids_of(own)
    texts = [" ".join(chance.choices(WORDS, k=chance.randint(1, 5))) for _ in range(1000)]
    members = open_members(list(map(str, models)), [store.folder], False, "cpu")
    scores = mean_scores(scores_of(members, texts, [ids], 8, no_progress)).rows(slice(0, 1000))
    with closing(open_backend(own, "vse1+vse3")) as searcher:
        for text, row in zip(texts, scores.tolist(), strict=True):
            hits = searcher.search(text, len(ids)).hits
            right = dict(zip(ids, row, strict=True))
            assert {hit.image_id: hit.score for hit in hits} == pytest.approx(right, abs=1e-5)
            assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    captions = write_captions(tmp_path / "captions.jsonl", data.captioned)
    command = ("eval", "model", *models, "--features", store.folder, "--captions", captions)
    measured = record(*command)["text_to_image"]
    assert recall_of(own, captions, "--backend", "vse1+vse3")["recall"] == pytest.approx(measured)


def success(run: Path, qrels: Path) -> dict[int, float]:
    measures = {k: Success @ k for k in (1, 5, 10)}
    found = ir_measures.calc_aggregate(
        list(measures.values()),
        list(ir_measures.read_trec_qrels(str(qrels))),
        list(ir_measures.read_trec_run(str(run))),
    )
    return {k: 100 * found[measure] for k, measure in measures.items()}


def test_ir_measures_finds_our_recall(index: Path, captions_file: Path, tmp_path: Path) -> None:
    run, qrels = tmp_path / "out.trec", tmp_path / "out.qrels"
    ours = recall_of(index, captions_file, "--run", run)["recall"]
    theirs = success(run, qrels)
    assert {k: ours[f"at_{k}"] for k in (1, 5, 10)} == pytest.approx(theirs)
    assert 0 < theirs[1] < theirs[10]
    absent = ["--run", tmp_path / "no" / "out"]
    refused(f"--run {tmp_path}", "eval", "index", index, "--captions", captions_file, *absent)


def test_ids_in_runs_have_no_spaces(drawings: Path, tmp_path: Path) -> None:
    photos = [CaptionedPhoto(one, "val", ("red blue green",)) for one in DRAWINGS]
    run, captions = tmp_path / "a run", write_captions(tmp_path / "captions.jsonl", photos)
    recall_of(drawings, captions, "--run", run)
    rows = [line.split(" ") for line in run.read_text(encoding="ascii").splitlines()]
    assert {len(row) for row in rows} == {6} and {row[-1] for row in rows} == {"sparta"}
    assert {unquote(row[2]) for row in rows} == {*DRAWINGS}
    assert {unquote(row[0]) for row in rows} == {f"{one}#0" for one in DRAWINGS}
    assert success(run, tmp_path / "a run.qrels")[10] == 100
