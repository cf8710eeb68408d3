"""The table of spelling that a training writes."""

from pathlib import Path

from sparta.adapt.folder import write_spelling
from sparta.word_tables import WordTables
from tests.indexer.vocabulary import small_tokenizer

LETTERS = "abcdefghijklmnopqrstuvwxyz"
TOKENIZER = small_tokenizer(["dog", "with", *LETTERS, *(f"##{letter}" for letter in LETTERS)])


def test_the_table_has_words_of_several_pieces_without_common_typos(tmp_path: Path) -> None:
    texts = ["Dog with frisbee."] * 1500 + ["wiht frisbees"] * 4 + ["boats"] * 12 + ["drog"] * 2
    texts += ["boats"] * 400 + ["boatss"]
    listed = {"frisbeer", "zeppelin", "dig"}
    write_spelling(texts, TOKENIZER, tmp_path, listed)
    spelling = WordTables.open(tmp_path).spelling
    assert spelling is not None and spelling.frequent == ("frisbee", "boats")
    # "wiht" is taken for "with"; "zeppelin" is like no word of the captions; two captions are few.
    assert spelling.correct == {"frisbee", "boats", "frisbees", "frisbeer", "dig", "dogs", "withs"}
