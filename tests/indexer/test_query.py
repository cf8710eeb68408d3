"""Queries: their grammar, how an index reads them, completions, corrections, explanations."""

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.commands.search import won_by
from indexer.engines.open import open_index
from indexer.postings import Postings
from indexer.query import Clause, Query, QueryError, parse, plain_text, searchable
from indexer.search import reader as module
from indexer.search.explanations import Explain
from indexer.search.searcher import Searcher
from indexer.search.words import Completion, HeldWord, HeldWords, WordList
from indexer.store.snapshot import Snapshot
from sparta.errors import InputError
from tests.indexer.labelled import LEFT, RIGHT, WHOLE, labelled_index
from tests.indexer.live_index import answer
from tests.indexer.random_postings import SETTINGS, write_postings
from tests.indexer.vocabulary import TOKENIZER

PLAIN = [
    "two dogs on a beach",
    "a t-shirt and a well-known x-ray",
    "dogs - and cats -- on a beach \u2013dog",
    "don't look at the dog's 'nose'",
    "🐶 -🐶 +🐶",
    "C++ and a+b, +1 -5 +1-800 -3°C",
    "rock -n- roll",
    "^_^ a^b ^3 2^3 a^ a^b^ a^3b",
    'a sign that says "no -smoking" and "go+by^train"',
    'a 12" pizza, "open',
    "“fire truck” and ”x“",
    r"C:\dogs \o/ a\b \\",
    "",
    "  ",
    "-",
    "+ -",
    '"',
    '""',
]


@pytest.mark.parametrize("text", PLAIN)
def test_a_sentence_is_no_syntax(text: str) -> None:
    query = parse(text)
    assert query.text == text and query.operator is None and len(query.clauses) == 1


SPOKEN = [
    *(
        (text, "dog")
        for text in ("dog;", "¿dog?", "(dog)", '"dog"', "dog…", "#dog", "« dog »", "[dog]")
    ),
    *(
        (text, "dog")
        for text in ("dog 🙂", "\uff44\uff4f\uff47", "dog_", "dog\u3000。", "$dog", "`dog`")
    ),
    ("two dogs / on a beach!", "two dogs on a beach"),
    ("T-shirt", "T shirt"),
    ("ﬁre truck", "fire truck"),
    ("cafe\u0301.", "café"),
    ("हिन्दी?", "हिन्दी"),
    *((text, text) for text in ("", " ", "?!", "🙂", "-", "… 🙂")),
    *((f"{frame} a dog", "a dog") for frame in ("a photo of", "Show me", "please find", "find me")),
    *((f"{frame} a dog", "a dog") for frame in ("SHOW ME: pictures of", "I'm looking for")),
    *((f"{frame} a dog", "a dog") for frame in ("can you show us some pics of", "images showing")),
    *((f"{frame} a dog", "a dog") for frame in ("show photos of", "Do you have any pics with")),
    *((f"{frame} a dog", "a dog") for frame in ("all of my photos of", "May I see", "images of")),
    *((f"{frame} a dog", "a dog") for frame in ("Im searching for", "pictures that show", "pls")),
    *((f"{frame} a dog", "a dog") for frame in ("where are the photos of", "photos we took of")),
    *((f"a man{sign}s dog™", "a man s dog") for sign in "'\u2019\u02bc\xb4`\uff07\u2032"),
    *((text, text) for text in ("photo", "a photo of", "show me pictures of", "find", "please")),
    *((text, text) for text in ("a man takes a photo of a dog", "show dogs", "findings", "photos")),
]


@pytest.mark.parametrize(("text", "words"), SPOKEN)
def test_a_query_is_its_words(text: str, words: str) -> None:
    assert [clause.text for clause in parse(text).clauses] == [words]


@pytest.mark.parametrize(
    ("text", "clauses"),
    [
        ("show me: +dog!", [("dog", "+")]),
        ("find a ball, -dog .", [("a ball", ""), ("dog", "-")]),
        ("show me -dog", [("show me ", ""), ("dog", "-")]),
    ],
)
def test_a_frame_is_left_out_beside_operators(text: str, clauses: list[tuple[str, str]]) -> None:
    assert [(clause.text, clause.sign) for clause in parse(text).clauses] == clauses


def test_captions_are_no_syntax(shared: Path) -> None:
    captions = (shared / "queries" / "coco-val2017-captions.txt").read_text(encoding="utf-8")
    lines = captions.splitlines()
    assert len(lines) == 25_014
    assert all(parse(line).operator is None for line in lines)


PARTS = st.sampled_from([*" \t\n-+^\\\"“”'.,3a犬", "dog", "-dog", "^2", ' "', " - ", "🐶", "²"])


@settings(max_examples=300)
@given(text=st.one_of(st.lists(PARTS, max_size=12).map("".join), st.text(max_size=30)))
def test_a_text_is_plain_or_has_an_operator(text: str) -> None:
    try:
        query = parse(text)
    except QueryError as error:
        assert 1 <= error.column <= len(text)
        assert re.search(r"(^|\s)[-+]|\^[-+]?\d", text)
        return
    assert query.text == text
    for clause in query.clauses:
        assert clause.word or (clause.sign, clause.weight) == ("", 1)
        assert clause.text.strip() or len(query.clauses) == 1


@pytest.mark.parametrize(
    ("text", "clauses"),
    [
        ("beach -dog", [Clause("beach "), Clause("dog", "-", 1, True, 7)]),
        ("+beach dog", [Clause("beach", "+", 1, True, 1), Clause(" dog", column=7)]),
        ("-dog, beach", [Clause("dog", "-", 1, True, 1), Clause("beach", column=5)]),
        ("a beach^3.", [Clause("a "), Clause("beach", "", 3, True, 3)]),
        ("+beach^100", [Clause("beach", "+", 100, True, 1)]),
        ("beach^1", [Clause("beach", "", 1, True, 1)]),
        ("+x-ray", [Clause("x-ray", "+", 1, True, 1)]),
        ("+C++", [Clause("C++", "+", 1, True, 1)]),
        ("+dog's", [Clause("dog's", "+", 1, True, 1)]),
        ("+犬 é^2", [Clause("犬", "+", 1, True, 1), Clause("é", "", 2, True, 4)]),
        ('+"fire truck"', [Clause("fire truck", "+", 1, True, 1)]),
        ("+“fire truck”^2!", [Clause("fire truck", "+", 2, True, 1)]),
        ('"fire truck"^2', [Clause("fire truck", "", 2, True, 1)]),
        (r'+"a \"b\" \\ c"', [Clause(r'a "b" \ c', "+", 1, True, 1)]),
        (r"\-dog \+cat", [Clause("dog cat")]),
        (r"beach\^3", [Clause("beach 3")]),
        (r"\-beach^3", [Clause("-beach", "", 3, True, 1)]),
        (r'\"fire truck"', [Clause("fire truck")]),
        (r'\-"fire truck"', [Clause("fire truck")]),
    ],
)
def test_a_text_with_operators_has_these_clauses(text: str, clauses: list[Clause]) -> None:
    assert list(parse(text).clauses) == clauses


@pytest.mark.parametrize(
    ("text", "column", "problem"),
    [
        ("a beach^0", 9, "a weight is a whole number from 1 to 100"),
        ("beach^101", 7, "a weight is a whole number from 1 to 100"),
        ("beach^1.5", 7, "a weight is a whole number from 1 to 100"),
        ("beach^-1", 7, "a weight is a whole number from 1 to 100"),
        ("beach^" + "9" * 5000, 7, "a weight is a whole number from 1 to 100"),
        ("a -dog^2", 8, "an excluded word has no weight: leave it out"),
        ('a -"fire truck', 4, "this quotation mark is not closed before a space or the end"),
        ('a -""', 3, "there is no word between the quotation marks"),
        ('a " " +" "', 7, "there is no word between the quotation marks"),
    ],
)
def test_errors_point_at_their_place(text: str, column: int, problem: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse(text)
    assert (caught.value.problem, caught.value.column) == (problem, column)


def test_a_query_that_only_excludes_searches_for_nothing() -> None:
    assert len(parse("  -dog -cat").clauses) == 2
    with pytest.raises(QueryError, match="it only excludes") as caught:
        searchable("  -dog -cat")
    assert caught.value.column == 3
    with pytest.raises(QueryError, match="it only excludes"):
        searchable("-dog .")


def test_text_for_searchers_without_operators() -> None:
    assert plain_text(r" show me a \-dog!") == "show me a -dog!"  # networks read sentences
    assert plain_text(Query.plain("-dog")) == "-dog"
    assert Query.plain("Show me a -dog , please .").clauses[0].text == "a dog please"


def test_an_error_shows_the_place_and_the_words_around_it() -> None:
    with pytest.raises(QueryError) as caught:
        parse("two dogs on a beach^0")
    assert str(caught.value).splitlines() == [
        "query, column 21: a weight is a whole number from 1 to 100",
        "  two dogs on a beach^0",
        "                      ^",
    ]
    with pytest.raises(QueryError) as caught:
        parse("dog\n" * 100 + "beach^0" + " cat" * 100)
    _, shown, pointer = str(caught.value).splitlines()
    assert shown[pointer.index("^") - 6 : pointer.index("^") + 5] == "beach^0 cat"
    assert len(shown) == 62


@pytest.mark.timeout(5)
@pytest.mark.parametrize(
    "text",
    ['"' * 20_000, "-a" + "!" * 2_000 + "x", "a" * 50_000 + " -b", '-"' + "\\" * 9_999],
    ids=["quotes", "punctuation", "word", "backslashes"],
)
def test_long_texts_are_read_quickly(text: str) -> None:
    with suppress(QueryError):
        parse(text)


# ---- texts ---------------------------------------------------------------------------------------


def test_counts_beyond_exact_sums_are_refused(postings: Postings, tmp_path: Path) -> None:
    """Lucene's sums of floats would differ from the columns' whole numbers."""
    largest = replace(postings, impacts=postings.impacts * 257)  # up to 16 bits
    write_postings(tmp_path / "index", [largest], TOKENIZER, replace(SETTINGS, bits=16))
    engines = [open_index(tmp_path / "index", name) for name in ("columns", "lucene")]
    for query in ("dog^100 cat^100 ball^56", "dog cat ball the " * 64):
        columns, lucene = (answer(engine.search(query, 300)) for engine in engines)
        assert columns == lucene and columns
    for engine in engines:
        for query, column in (
            ("the dog^100 cat^100 ball^56", 5),
            (f"{'dog ' * 200}cat ball^56", 805),
            (f"{'dog ' * 256}cat", 1),
            ("dog " * 280 + "cat " * 33, 1),
        ):
            said = f"column {column}: words and weights add up to more than 256: use fewer"
            with pytest.raises(QueryError, match=said):
                engine.search(query)
        engine.close()


def test_coverage_never_exceeds_1(searcher: Searcher) -> None:
    query = " ".join(["the"] * 9)  # nine times a ninth is more, in floats
    found = searcher.search(query, 300, min_coverage=0.5).hits
    assert {hit.coverage for hit in found} == {1.0}
    assert searcher.explain(query, found[0].image_id).coverage == 1.0


def test_a_full_cache_is_emptied(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CACHED", 2)
    searcher = open_index(index)
    texts = ("dog cat ball sky", "cat beach dog", "two dogs running")
    right = [answer(searcher.search(text)) for text in texts]
    assert [answer(searcher.search(text)) for text in texts] == right


# ---- explanations --------------------------------------------------------------------------------


def test_damaged_groundings_are_one_line(
    searcher: Searcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged(_: Snapshot, documents: Any) -> list[bytes]:
        return [b"\x09" * 20 for _ in documents]

    monkeypatch.setattr(Snapshot, "groundings", damaged)
    with pytest.raises(InputError, match=r"grounding of an image is damaged \(.*build the"):
        searcher.search("dog", explain=Explain())
    assert searcher.search("dog", explain=Explain(grounded=False)).hits[0].explanation


def test_what_won_is_told_in_words(tmp_path: Path) -> None:
    index, _, _ = labelled_index(tmp_path)
    searcher = open_index(index)
    for term, words, box in (
        ("dog", "label “dog” in “brown dog”, region 0", LEFT),
        ("cat", "label “cat”, region 1", RIGHT),
        ("ball", "region 1", RIGHT),
        ("tree", "whole photo", WHOLE),
        ("man", "", None),
    ):
        [found] = searcher.explain(term, "a.png").terms
        assert won_by(found) == words and found.whole == (box == WHOLE)
        assert found.box == (box and pytest.approx(box, abs=1e-4))
    searcher.close()


IMAGES = {"beach": 8, "bench": 9, "bear": 9, "beard": 0, "be": 3, "##ach": 7, "b2": 5, "été": 2}


def held(images: Mapping[str, int], strengths: Mapping[str, int] | None = None) -> HeldWords:
    """Words that are in these numbers of images, with these largest impacts or 1."""
    known = WordList(images)
    counts = np.array([images[word] for word in known.words], np.int64)
    strongest = np.array([(strengths or {}).get(word, 1) for word in known.words], np.int64)
    return HeldWords(
        known, np.stack([counts, strongest]), counts.__getitem__, strongest.__getitem__
    )


@pytest.fixture
def words() -> HeldWords:
    return held(IMAGES)


def test_the_last_word_is_completed(words: HeldWords) -> None:
    found = words.complete("two dogs on a Be", 3)
    assert found == [
        Completion("two dogs on a bear", "bear", 9),
        Completion("two dogs on a bench", "bench", 9),
        Completion("two dogs on a beach", "beach", 8),
    ]
    assert [one.text for one in words.complete('dog -"bear', 5)] == ['dog -"bear']
    assert [one.word for one in words.complete("é", 5)] == ["été"]
    assert words.complete("a beahc", 5) == [Completion("a beach", "beach", 8)]  # corrected
    assert words.complete("dog ", 5) == words.complete("7", 5) == []


def test_misspelt_words_are_corrected_by_frequent_words_and_their_plurals(words: HeldWords) -> None:
    for word, near in (("Beech", ["bench", "beach"]), ("beaches", ["beach"]), ("ball", [])):
        assert [one.word for one in words.correct(word, 3)] == near


def test_completions_are_of_words_that_photos_have_strongly() -> None:
    words = held({"being": 900, "beach": 300, "be": 950}, {"being": 20, "beach": 200, "be": 2})
    assert [one.word for one in words.complete("be", 3)] == ["beach", "being", "be"]


def test_a_letter_left_out_or_swapped_is_likelier_than_another_one() -> None:
    words = held({"black": 10, "back": 50, "bleak": 20})
    assert [one.word for one in words.correct("balck", 3)] == ["black", "back"]
    assert [one.word for one in words.correct("blck", 3)] == ["black", "back"]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        *(("wiht", "with"), ("blac", "black"), ("kds", "kids"), ("bycicle", "bicycle")),
        *(("sitking", "sitting"), ("skatebroadr", "skateboard")),
        *(("thn", None), ("elephnt", None), ("lacoste", None)),
    ],
)
def test_only_likely_corrections_are_made(typed: str, meant: str | None) -> None:
    words = ("with", "black", "kids", "bicycle", "sitting", "skateboard", "the", "lacrosse")
    assert held(dict.fromkeys(words, 5)).corrected(typed) == meant


def edits(a: str, b: str) -> int:
    """The optimal string alignment distance by its definition."""
    table = {(i, 0): i for i in range(len(a) + 1)} | {(0, j): j for j in range(len(b) + 1)}
    for i, j in product(range(1, len(a) + 1), range(1, len(b) + 1)):
        table[i, j] = min(
            table[i - 1, j] + 1, table[i, j - 1] + 1, table[i - 1, j - 1] + (a[i - 1] != b[j - 1])
        )
        if i > 1 and j > 1 and a[i - 1] == b[j - 2] and a[i - 2] == b[j - 1]:
            table[i, j] = min(table[i, j], table[i - 2, j - 2] + 1)
    return table[len(a), len(b)]


LETTERS = st.text("abc", min_size=1, max_size=9)


@settings(max_examples=300)
@given(word=LETTERS, others=st.lists(LETTERS, unique=True, min_size=1, max_size=12))
def test_corrections_are_the_nearest_words(word: str, others: list[str]) -> None:
    most = 0 if len(word) < 3 else 1 if len(word) < 6 else 2
    apart = {other: edits(word, other) for other in others}
    least = min((distance for distance in apart.values() if distance), default=0)

    def order(other: str) -> tuple[bool, str]:
        return not (len(other) > len(word) or sorted(other) == sorted(word)), other

    near = [other for other in others if apart[other] == least <= most and least]
    found = held(dict.fromkeys(others, 1)).correct(word, 12)
    assert found == [HeldWord(other, 1) for other in sorted(near, key=order)]
