"""`sparta search`, and what the query path must not load."""

import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

import pytest

from indexer.commands.search import search
from indexer.dense.build import add_dense
from indexer.engines.open import open_backend
from indexer.postings import Postings
from sparta.features.store import FeatureStore
from sparta.word_tables import Substitute
from tests.indexer.command_line import sparta, sparta_here
from tests.indexer.live_index import answer
from tests.indexer.random_postings import word_tables, write_postings
from tests.indexer.vocabulary import RARE, TOKENIZER
from tests.reference.searcher import ReferenceSearcher


def test_searching_and_explaining_need_no_torch(index: Path, exact: ReferenceSearcher) -> None:
    query = "dogs dog qqq"
    run = sparta("search", str(index), query, "-k", "3", "--json", "--explain")
    assert run.returncode == 0 and run.stderr == "", run.stderr
    answer = json.loads(run.stdout)
    right = exact.search(query, 3)
    assert [hit["image_id"] for hit in answer["hits"]] == [hit.image_id for hit in right.hits]
    assert answer["unknown"] == ["qqq"]
    for hit in answer["hits"]:
        assert sum(term["score"] for term in hit["explanation"]) == hit["score"]
        assert {"term", "region", "box"} <= set(hit["explanation"][0])
    image_id = right.hits[0].image_id
    run = sparta("explain", str(index), image_id, query, "--json")
    assert run.returncode == 0 and run.stderr == "", run.stderr
    [answer] = json.loads(run.stdout)
    assert answer["score"] == exact.explain(query, image_id).score


@pytest.mark.parametrize(
    ("options", "unneeded"),
    [
        ([], "pydantic numba jnius importlib.metadata scipy indexer.engines.lucene"),
        (["--json"], "rich pydantic numba jnius importlib.metadata indexer.engines.lucene"),
        (
            ["--no-substitute", "-k", "3"],
            "pyarrow.compute indexer.engines.dense indexer.filters.browse",
        ),
    ],
)
def test_a_search_in_columns_loads_little(index: Path, options: list[str], unneeded: str) -> None:
    open_backend(index).close()  # builds them
    program = f"""
import sys
sys.argv = ["sparta", "search", {str(index)!r}, "two dogs", *{options!r}]
from sparta.__main__ import main
try:
    main()
except SystemExit as end:
    loaded = [name for name in {unneeded.split()!r} if name in sys.modules]
    sys.exit(end.code or ", ".join(loaded) or 0)
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


def test_who_reads_no_more_ends_a_search_silently(index: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "sparta", "search", str(index), "dogs", "--json"]
    run = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True)
    os.close(writing)
    assert (run.returncode, run.stderr) == (1, "")


def test_a_table_has_hits_terms_and_unknown_words(index: Path, exact: ReferenceSearcher) -> None:
    run = sparta("search", str(index), "dogs qqq [red]", "--explain")
    assert run.returncode == 0 and run.stderr == "", run.stderr
    assert all(hit.image_id in run.stdout for hit in exact.search("dogs [red]", 10).hits)
    assert "##s" in run.stdout
    assert "Unknown words: qqq" in run.stdout


def test_substitutes_are_marked_and_can_be_refused(postings: Postings, tmp_path: Path) -> None:
    tables = word_tables({RARE: (Substitute("cat", 0.75),)}, ["cat"])
    write_postings(tmp_path / "index", [postings], TOKENIZER, tables=tables)
    run = sparta("search", str(tmp_path / "index"), f"{RARE} dog", "--explain")
    assert run.returncode == 0 and run.stderr == "", run.stderr
    assert f"Substitutes: {RARE} → cat" in run.stdout and "Unknown" not in run.stdout
    assert f'Rarely seen in training: "{RARE}"' in run.stdout
    assert f"│ cat  │ {RARE} → cat │" in run.stdout
    run = sparta("search", str(tmp_path / "index"), RARE, "-k", "1", "--json")
    answer = json.loads(run.stdout)
    assert answer["substitutions"] == [{"word": RARE, "term": "cat", "similarity": 0.75}]
    assert answer["rare"] == [RARE]
    run = sparta_here("search", str(tmp_path / "index"), RARE, "--no-substitute")
    assert f"Unknown words: {RARE}" in run.stdout and "→" not in run.stdout
    image_id = answer["hits"][0]["image_id"]
    for option, term in (("--substitute", "cat"), ("--no-substitute", RARE)):
        run = sparta_here("explain", str(tmp_path / "index"), image_id, RARE, "--json", option)
        [explained] = json.loads(run.stdout)
        assert [(one["term"], one["word"]) for one in explained["terms"]] == [(term, RARE)]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["qqq"], 0, "No image shares a word"),
        ([""], 1, "the query is empty"),
        (["  \n"], 1, "the query is empty"),
        ([os.fsdecode(b"dog \xff")], 1, "not UTF-8"),
        (["dog", "-k", "0"], 2, "-k"),
        (["--filter", "width:<0"], 0, "The filter lets no image through."),
        (["dogs", "--sort", "wide"], 1, "--sort: no image has the field 'wide'"),
        (["dog", "--backend", "ensemble"], 1, "no dense part 'ensemble' (it has: none)"),
        (["dogs", "--filter", "width:1 widht:2"], 1, "--filter, column 9: no image has the field"),
        (["dogs", "--filter", ""], 1, "--filter, column 1: a condition is missing"),
    ],
)
def test_a_search_that_finds_nothing_or_cannot_says_why(
    index: Path, arguments: list[str], code: int, said: str
) -> None:
    run = sparta_here("search", str(index), *arguments)
    assert run.returncode == code, run
    assert said in run.stdout + run.stderr and "Traceback" not in run.stderr


def test_a_folder_that_is_no_index_is_refused(tmp_path: Path) -> None:
    run = sparta("search", str(tmp_path), "dog")
    assert run.returncode == 1 and "is not an index" in run.stderr


def test_a_filter_and_an_order_without_words(index: Path, postings: Postings) -> None:
    options = ("--filter", "width:10..20", "--sort", "-width", "--json", "-k", "3")
    run = sparta("search", str(index), *options)
    assert run.returncode == 0 and run.stderr == "", run.stderr
    assert [hit["metadata"]["width"] for hit in json.loads(run.stdout)["hits"]] == [20, 19, 18]
    few = ("--filter", "width:10..12", "--json")
    run = sparta_here("similar", str(index), postings.ids[0], *few)
    assert {hit["metadata"]["width"] for hit in json.loads(run.stdout)["hits"]} <= {10, 11, 12}


@pytest.fixture(scope="module")
def dense_index(
    sparse_index: Path,
    store: FeatureStore,
    dense_model: Path,
    multi_view: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    out = Path(shutil.copytree(sparse_index, tmp_path_factory.mktemp("dense") / "index"))
    add_dense(out, store, "vse++", dense_model, device="cpu")
    add_dense(out, store, "mv-vse", multi_view, device="cpu")
    return out


def test_a_dense_backend_answers(dense_index: Path) -> None:
    beside = sparta("search", str(dense_index), "dog", "--json")  # which loads no torch
    assert beside.returncode == 0 and beside.stderr == "", beside.stderr
    run = sparta_here("search", str(dense_index), "dogs qqq", "--backend", "vse++")
    assert run.returncode == 0 and run.stderr == "", run.stderr
    best = open_backend(dense_index, "vse++").search("dogs qqq", 10).hits
    assert all(hit.image_id in run.stdout for hit in best)
    assert f"{best[0].score:.4f}" in run.stdout and "matching" not in run.stdout
    assert "Unknown words: qqq" in run.stdout
    options = ("--backend", "mv-vse", "--json", "-k", "30", "--filter")
    for text, count in (("path:*", 21), ("-path:*", 0)):
        found = json.loads(sparta_here("search", str(dense_index), "dogs", *options, text).stdout)
        assert len(found["hits"]) == count and found["timings"]["encode_ms"] > 0
        assert {hit["view"] for hit in found["hits"]} <= {0, 1, 2}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["dog", "--backend", "vse"], "no dense part 'vse' (it has: mv-vse, vse"),
        (["dog", "--backend", "vse++", "--explain"], "--explain: the scores of"),
        (
            ["--backend", "mv-vse", "--filter", "width:1"],
            "the dense engine lists the best images alone; search sparta",
        ),
    ],
)
def test_what_a_dense_backend_cannot_is_refused(
    dense_index: Path, arguments: list[str], said: str
) -> None:
    run = sparta_here("search", str(dense_index), *arguments)
    assert run.returncode == 1 and said in run.stderr and "Traceback" not in run.stderr


def test_a_word_of_many_pages_is_answered_at_once(
    index: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    started = time.monotonic()
    search(index, "a" * 100_000)
    assert time.monotonic() - started < 20  # it took minutes
    assert f"Unknown words: {'a' * 100}…" in capsys.readouterr().out.replace("\n", "")


def test_similar_images_are_found_without_torch(index: Path, exact: ReferenceSearcher) -> None:
    image_id = "a/00007 é.jpg"
    right = exact.similar(image_id, 3)
    run = sparta("similar", str(index), image_id, "-k", "3", "--json", "--engine", "lucene")
    assert run.returncode == 0 and run.stderr == "", run.stderr
    found = json.loads(run.stdout)
    assert found["image_id"] == image_id
    assert found["terms"] == [asdict(one) for one in right.terms]
    assert [(h["rank"], h["image_id"], h["score"]) for h in found["hits"]] == answer(right)
    run = sparta_here("similar", str(index), image_id, "-k", "3")
    assert all(hit.image_id in run.stdout for hit in right.hits)
    assert all(f"{one.term} ({one.count})" in run.stdout for one in right.terms)
    run = sparta_here("similar", str(index), "nowhere.jpg")
    assert run.returncode == 1 and "has no image 'nowhere.jpg'" in run.stderr
    assert sparta_here("similar", str(index), image_id, "-k", "0").returncode == 2
