"""The grammar of queries: what is an operator, and above all what is none."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.query import Clause, Query, QueryError, parse, plain_text, searchable

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
    assert parse(text).clauses == (Clause(text),)


def test_captions_are_no_syntax(shared: Path) -> None:
    captions = (shared / "queries" / "coco-val2017-captions.txt").read_text(encoding="utf-8")
    lines = captions.splitlines()
    assert len(lines) == 25_014
    assert all(parse(line) == Query.plain(line) for line in lines)


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
    if query.operator is None and not re.search(r'\\[-+"“”^]', text):
        assert query.clauses == (Clause(text),)
    for clause in query.clauses:
        assert clause.word or (clause.sign, clause.weight) == ("", 1)
        assert clause.text.strip() or len(query.clauses) == 1


@pytest.mark.parametrize(
    ("text", "clauses"),
    [
        ("beach -dog", [Clause("beach "), Clause("dog", "-", 1, True, 7)]),
        ("+beach dog", [Clause("beach", "+", 1, True, 1), Clause(" dog", column=7)]),
        ("-dog, beach", [Clause("dog", "-", 1, True, 1), Clause(", beach", column=5)]),
        ("a beach^3.", [Clause("a "), Clause("beach", "", 3, True, 3), Clause(".", column=10)]),
        ("+beach^100", [Clause("beach", "+", 100, True, 1)]),
        ("beach^1", [Clause("beach", "", 1, True, 1)]),
        ("+x-ray", [Clause("x-ray", "+", 1, True, 1)]),
        ("+C++", [Clause("C++", "+", 1, True, 1)]),
        ("+dog's", [Clause("dog's", "+", 1, True, 1)]),
        ("+犬 é^2", [Clause("犬", "+", 1, True, 1), Clause("é", "", 2, True, 4)]),
        ('+"fire truck"', [Clause("fire truck", "+", 1, True, 1)]),
        ("+“fire truck”^2!", [Clause("fire truck", "+", 2, True, 1), Clause("!", column=16)]),
        ('"fire truck"^2', [Clause("fire truck", "", 2, True, 1)]),
        (r'+"a \"b\" \\ c"', [Clause(r'a "b" \ c', "+", 1, True, 1)]),
        (r"\-dog \+cat", [Clause("-dog +cat")]),
        (r"beach\^3", [Clause("beach^3")]),
        (r"\-beach^3", [Clause("-beach", "", 3, True, 1)]),
        (r'\"fire truck"', [Clause('"fire truck"')]),
        (r'\-"fire truck"', [Clause('-"fire truck"')]),
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
    assert searchable("-dog .").clauses[1].text == " ."


def test_text_for_searchers_without_operators() -> None:
    assert plain_text(r"a \-dog") == "a -dog"
    assert plain_text(Query.plain("-dog")) == "-dog"
    with pytest.raises(QueryError, match="a dense model has no signs and weights") as caught:
        plain_text("a dog^2")
    assert caught.value.column == 3


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
