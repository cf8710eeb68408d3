"""Misspelt words and function words of queries, and what answers say of them."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from indexer.answer import Condition, Correction, Substitution
from indexer.engines.open import open_index
from indexer.index import build
from indexer.postings import ImagePostings, Postings
from indexer.search.searcher import Searcher
from sparta.errors import InputError
from sparta.word_tables import SPELLING, WordTables
from tests.indexer.live_index import answer
from tests.indexer.random_postings import random_postings, word_tables, write_postings
from tests.indexer.vocabulary import COMMON, RARE, small_tokenizer
from tests.needs import missing

# All letters are pieces: every word has pieces that images have, as with a model's tokenizer.
LETTERS = "abcdefghijklmnopqrstuvwxyz"
PIECES = [*LETTERS, *(f"##{letter}" for letter in LETTERS), "##frost"]
TOKENIZER = small_tokenizer(["dog", "beach", "black", "and", "had", RARE, COMMON, *PIECES])
UNHELD = {TOKENIZER.ids["and"], TOKENIZER.ids["had"]}


def without_some(image: ImagePostings) -> ImagePostings:
    kept = [place for place, term in enumerate(image.terms.tolist()) if term not in UNHELD]
    own = {name: getattr(image, name)[kept] for name in ("terms", "impacts", "positions")}
    return replace(image, **own)


@pytest.fixture(scope="module")
def searcher(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Searcher]:
    """Of images that have neither "and" nor "had"."""
    folder = tmp_path_factory.mktemp("spelling") / "index"
    images = Postings.of([*map(without_some, random_postings(TOKENIZER, 60, seed=4))])
    tables = word_tables({}, ("had",), ("jackfrost",), ("beech", "blackness"))
    write_postings(folder, [images], TOKENIZER, tables=tables)
    opened = open_index(folder)
    yield opened
    opened.close()


@pytest.mark.parametrize(
    ("typed", "right"),
    [
        ("baech", "beach"),
        ("a Beahc, dog", "a beach dog"),
        ("dog +beac", "dog +beach"),
        ("dog -balck", "dog -black"),
        ('"blakc"^3 dog', '"black"^3 dog'),
        ("jackfrst", "jackfrost"),
    ],
)
def test_a_misspelt_word_is_searched_as_the_correct_one(
    searcher: Searcher, typed: str, right: str
) -> None:
    found, expected = searcher.search(typed, 60), searcher.search(right, 60)
    assert answer(found) == answer(expected) and not expected.substitutions
    assert not found.unknown and len(found.substitutions) == 1
    image_id = found.hits[0].image_id
    assert searcher.explain(typed, image_id).score == searcher.explain(right, image_id).score
    alone = searcher.search(typed, 60, substitute=False)
    assert not alone.substitutions and answer(alone) != answer(expected)


def test_an_answer_names_the_correct_word_and_the_typed_one(searcher: Searcher) -> None:
    found = searcher.search("Baech dog -blakc")
    assert found.substitutions == [
        Substitution("Baech", "beach", None),
        Substitution("blakc", "black", None),
    ]
    corrections = [Correction("Baech", ["beach"]), Correction("blakc", ["black"])]
    assert found.corrections == corrections
    [condition] = found.conditions
    assert isinstance(condition, Condition) and condition.word == "blakc" and condition.images
    assert searcher.similar(found.hits[0].image_id, words="baech").substitutions


@pytest.mark.parametrize(
    "word", ["beech", "blackness", "jackfrost", "lacquer", "dgo", "b4ach", "x"]
)
def test_correct_and_doubtful_words_stay(searcher: Searcher, word: str) -> None:
    assert not searcher.search(word).substitutions


def test_function_words_that_no_image_has_are_not_unknown(searcher: Searcher) -> None:
    alone, beside = searcher.search("dog", 60), searcher.search("dog and had", 60)
    assert answer(beside) == answer(alone)
    assert not (beside.unknown or beside.rare or beside.corrections)
    covered = searcher.search("and dog had", 60, min_coverage=0.9)
    assert [hit.image_id for hit in covered.hits]
    assert len(covered.hits) == len(searcher.search("dog", 60, min_coverage=0.9).hits)
    nothing = searcher.search("and")
    assert not nothing.hits and not nothing.unknown


def test_an_index_without_the_table_corrects_nothing(tmp_path: Path) -> None:
    images = random_postings(TOKENIZER, 20)
    write_postings(tmp_path / "index", [images], TOKENIZER)
    searcher = open_index(tmp_path / "index")
    assert not searcher.search("baech").substitutions
    searcher.close()


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"frequent": ["a"]}', '{"frequent": "a", "other": []}', "null"]
)
def test_a_damaged_table_is_one_line(tmp_path: Path, content: str) -> None:
    (tmp_path / SPELLING).write_text(content)
    with pytest.raises(InputError, match=r"spelling\.json is not a table of spelling .*remove it"):
        WordTables.open(tmp_path)


# ---- the shipped model on real photos --------------------------------------------------------


@pytest.fixture(scope="module")
def photos(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Searcher]:
    """Of 300 validation photos."""
    if not (shared / "cases" / "K12.txt").is_file():
        missing(f"real photos: {shared / 'cases'} is absent")
    folder = tmp_path_factory.mktemp("photos")
    (folder / "photos").mkdir()
    lines = (shared / "everyday" / "captions.jsonl").read_text(encoding="utf-8").splitlines()
    for row in map(json.loads, lines):
        if row["split"] == "val":
            target = shared / "everyday" / "images" / row["image"]
            (folder / "photos" / row["image"]).symlink_to(target)
    build(folder / "photos", folder / "index")
    searcher = open_index(folder / "index")
    yield searcher
    searcher.close()


def test_punctuation_and_frames_make_no_difference(photos: Searcher, shared: Path) -> None:
    lines = (shared / "cases" / "K12.txt").read_text(encoding="utf-8").splitlines()
    for kind, *queries in (line.split("\t") for line in lines if not line.startswith("#")):
        found = [answer(photos.search(query, 20)) for query in queries]
        if kind == "finds":
            assert found[0], queries
        else:
            assert (found[0] == found[1]) == (kind == "same"), queries


def test_most_typos_are_corrected_and_correct_words_stay(photos: Searcher, shared: Path) -> None:
    lines = (shared / "cases" / "K13.tsv").read_text(encoding="utf-8").splitlines()
    right = 0
    for typed, word in (line.split("\t") for line in lines):
        corrected = photos.search(typed, 10).substitutions
        right += [(one.word, one.term) for one in corrected] == [(typed, word)]
    assert right >= 0.9 * len(lines)
    words = (shared / "cases" / "K13-correct.txt").read_text(encoding="utf-8").split()
    touched = [
        word
        for word in words
        if any(one.similarity is None for one in photos.search(word).substitutions)
    ]
    assert len(touched) <= 0.01 * len(words), touched
    for word in ("dont", "ive", "again", "below", "hte"):
        found = photos.search(f"dog {word}")
        assert not (found.unknown or found.corrections or found.substitutions), word
