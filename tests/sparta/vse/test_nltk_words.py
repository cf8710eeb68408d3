"""Words of captions as NLTK splits them; the expected ones were made by its word_tokenize."""

import hashlib
import re
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparta.errors import InputError
from sparta.vse.nltk_words import _splitters, nltk_words
from sparta.vse.tokenizer import TextTokenizer

# SHA-256 of a line of words for each chosen caption, made by NLTK 3.10.4 with its English sentence
# model punkt_tab: nltk.tokenize.word_tokenize(caption.lower()). The other captions are letters,
# commas and a final full stop, where splitting decides nothing; all 25,014 were compared once.
EXPECTED = "17c3d84dcd41540ee9348c475123f735a4d0d38029c932812802fa2c9078efd9"
PLAIN = re.compile(r"[A-Za-z ,]+\.?\s*")
CONTRACTED = re.compile("cannot|gonna|gotta|wanna|gimme|lemme")


def words(text: str) -> list[str]:
    return [word for word, _ in nltk_words(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('A "stop" sign.', "a `` stop '' sign ."),
        ("the d'oeuvre and/or t.v. it's 6 o'clock", "the d'oeuvre and/or t.v . it 's 6 o'clock"),
        ("I cannot .. or ... go", "i can not .. or ... go"),
        ("a dog. A cat", "a dog . a cat"),
        ("it\u2019s gonna <mask> [b]", "it \u2019 s gon na < mask > [ b ]"),
        ("dogs' n't 'tis", "dogs ' n't ' tis"),
        ("", ""),
    ],
)
def test_words_are_nltks(text: str, expected: str) -> None:
    assert words(text) == expected.split()


def chosen(number: int, caption: str) -> bool:
    """Every twentieth caption, and those that take more than letters, commas and a full stop."""
    hard = not PLAIN.fullmatch(caption) or CONTRACTED.search(caption.lower())
    return number % 20 == 0 or bool(hard)


def test_captions_of_coco_are_split_as_by_nltk(shared: Path) -> None:
    path = shared / "queries" / "coco-val2017-captions.txt"
    captions = path.read_text(encoding="utf-8").splitlines()
    assert len(captions) == 25_014
    hard = [caption for number, caption in enumerate(captions) if chosen(number, caption)]
    assert len(hard) == 1_943
    split = "\n".join(" ".join(words(caption)) for caption in hard)
    assert hashlib.sha256(split.encode()).hexdigest() == EXPECTED


def test_words_are_shown_as_typed() -> None:
    shown = [word for _, word in nltk_words('The "Big" Dog CANNOT go')]
    assert shown == ["The", '"', "Big", '"', "Dog", "CAN", "NOT", "go"]
    longer = "\u0130N a Town"  # in lower case longer by a character
    assert [word for _, word in nltk_words(longer)] == ["i\u0307n", "a", "town"]


@given(st.text(max_size=40))
def test_any_text_is_split(text: str) -> None:
    assert all(word and not word.isspace() for word, _ in nltk_words(text))


@given(st.text(alphabet="a.\"'` \u0130Z,-(n't", max_size=30))
def test_texts_of_quotes_are_split(text: str) -> None:
    assert all(word for pair in nltk_words(text) for word in pair)


def test_a_tokenizer_looks_the_words_up() -> None:
    ids = {word: i for i, word in enumerate(["<pad>", "<start>", "<end>", "<unk>", "``", "can"])}
    tokenizer = TextTokenizer.from_words(ids, nltk_words)
    assert tokenizer.encode('"Cannot <mask>') == [1, 4, 5, 3, 3, 3, 3, 2]
    assert tokenizer.unknown('"Cannot Go') == ["not", "Go"]


def test_without_nltk_an_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    _splitters.cache_clear()
    monkeypatch.setitem(sys.modules, "punkt", None)
    with pytest.raises(InputError, match=r"pip install 'visualsparta\[nltk\]'"):
        nltk_words("a")
