"""Words and word pieces of captions; words as NLTK splits them were made by its word_tokenize."""

import copy
import pickle
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models

from sparta.errors import InputError
from sparta.vse.tokenizer import TextTokenizer, _splitters, nltk_words
from tests import tiny

CAPTIONS = ["The dog and a dog", "a DOG runs", "a cat, a hat", "cat", "rare"]


def pieces(folder: Path) -> TextTokenizer:
    tiny.tokenizer().save(folder)
    return TextTokenizer.from_folder(folder)


def spell(tokenizer: TextTokenizer, vocabulary: list[str], text: str) -> list[list[str]]:
    return [[vocabulary[i] for i in ids] for ids in tokenizer.words(text)]


def test_words_by_falling_count_then_alphabet_between_special_tokens() -> None:
    tokenizer = TextTokenizer.from_captions(CAPTIONS, min_count=2)
    words = ["<pad>", "<start>", "<end>", "<unk>", "a", "dog", "cat", "<mask>"]
    assert len(tokenizer) == len(words)
    special = (tokenizer.pad_id, tokenizer.start_id, tokenizer.end_id, tokenizer.unknown_id)
    assert (*special, tokenizer.mask_id) == (0, 1, 2, 3, 7)
    assert tokenizer.ordinary_ids == [4, 5, 6]
    assert spell(tokenizer, words, "A dog, cats") == [["a"], ["dog"], ["<unk>"], ["<unk>"]]
    every = TextTokenizer.from_captions(CAPTIONS, min_count=1)
    rare = [word for text in ("and", "hat", "rare", "runs", "the") for word in every.words(text)]
    assert rare == [[8], [9], [10], [11], [12]]  # all once: as in the alphabet, behind ","
    assert every.words(",") == [[7]]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Don\u2019t stop, it's MINE!", "do n't stop , it 's mine !"),
        ("the man's t-shirt (3.50 or 1,000)", "the man 's t-shirt ( 3.50 or 1,000 )"),
        ("they'll can't 'quoted' dogs' --", "they 'll ca n't ' quoted ' dogs ' - -"),
        ("Cafe\u0301 [MASK] <pad>", "café [ mask ] < pad >"),
    ],
)
def test_words_are_split_as_captions_need(text: str, words: str) -> None:
    expected = words.split()
    vocabulary = {word: i for i, word in enumerate(["<pad>", "<start>", "<end>", "<unk>"])}
    for word in expected:
        vocabulary.setdefault(word, len(vocabulary))
    tokenizer = TextTokenizer.from_words(vocabulary)
    assert tokenizer.words(text) == [[vocabulary[word]] for word in expected]
    assert tokenizer.unknown(text) == []


def test_imported_vocabulary_keeps_its_ids() -> None:
    given_ids = {"<pad>": 0, "<start>": 1, "<end>": 2, "<unk>": 3, "zebra": 5, "ant": 4}
    tokenizer = TextTokenizer.from_words(given_ids)
    assert tokenizer.encode("Zebra ant ox") == [1, 5, 4, 3, 2]
    assert (tokenizer.mask_id, len(tokenizer)) == (6, 7)
    assert "<mask>" not in given_ids
    own = TextTokenizer.from_words({**given_ids, "<mask>": 6, "ox": 7})
    assert (own.mask_id, len(own), own.encode("ox")) == (6, 8, [1, 7, 2])


def test_vocabularies_with_gaps_or_without_special_tokens_are_refused() -> None:
    with pytest.raises(InputError, match="gaps or doubles"):
        TextTokenizer.from_words({"<pad>": 0, "<start>": 1, "<end>": 2, "<unk>": 3, "a": 9})
    with pytest.raises(InputError, match=r"no end token \(\[SEP\] or <end>"):
        TextTokenizer.from_words({"<pad>": 0, "<start>": 1, "<unk>": 2})


def test_word_pieces_belong_to_their_word(tmp_path: Path) -> None:
    tokenizer = pieces(tmp_path)
    found = spell(tokenizer, tiny.VOCABULARY, "Running zebra, dogs")
    assert found == [["run", "##ning"], ["[UNK]"], ["[UNK]"], ["dog", "##s"]]
    ids = [tiny.VOCABULARY.index(token) for token in tiny.SPECIAL]
    special = (tokenizer.pad_id, tokenizer.unknown_id, tokenizer.start_id, tokenizer.end_id)
    assert [*special, tokenizer.mask_id] == ids
    assert tokenizer.ordinary_ids == list(range(6, len(tiny.VOCABULARY)))  # [unused0] is none


@pytest.mark.parametrize("text", ["[MASK]", "a [SEP] b", "[CLS]dog", "[PAD]"])
def test_no_text_spells_a_special_token(text: str, tmp_path: Path) -> None:
    tokenizer = pieces(tmp_path)
    framing = {tokenizer.pad_id, tokenizer.start_id, tokenizer.end_id, tokenizer.mask_id}
    for made in (tokenizer, copy.deepcopy(tokenizer), pickle.loads(pickle.dumps(tokenizer))):
        assert not framing & {i for ids in made.words(text) for i in ids}


@given(text=st.text(max_size=40))
def test_any_text_is_framed(text: str) -> None:
    tokenizer = TextTokenizer.from_captions(CAPTIONS, min_count=1)
    ids = tokenizer.encode(text)
    assert ids == [1, *(i for word in tokenizer.words(text) for i in word), 2]
    assert all(0 <= i < len(tokenizer) for i in ids)
    assert all(word and word == word.strip() for word in tokenizer.unknown(text))


def test_frame_is_cut_before_the_end() -> None:
    tokenizer = TextTokenizer.from_captions(CAPTIONS, min_count=2)
    assert tokenizer.max_length is None
    assert tokenizer.encode("") == [1, 2]
    words = [[4], [5, 6], [4]]
    cuts = {9: [1, 4, 5, 6, 4, 2], 6: [1, 4, 5, 6, 4, 2], 4: [1, 4, 5, 2], 2: [1, 2]}
    for limit, expected in cuts.items():
        tokenizer.max_length = limit
        assert tokenizer.frame(words) == expected


@pytest.mark.parametrize("limit", [None, 5])
def test_saved_and_read_again(limit: int | None, tmp_path: Path) -> None:
    tokenizer = TextTokenizer.from_captions(CAPTIONS, min_count=1)
    tokenizer.max_length = limit
    tokenizer.save(tmp_path)
    again = TextTokenizer.from_folder(tmp_path)
    text = "The dog\u2019s hat, a cat and a runs rare zebra"
    assert again.encode(text) == tokenizer.encode(text)
    assert again.unknown(text) == tokenizer.unknown(text) == ["\u2019s", "zebra"]
    assert (again.max_length, len(again)) == (limit, len(tokenizer))
    assert again.ordinary_ids == tokenizer.ordinary_ids


def test_folders_without_a_usable_tokenizer_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"tokenizer\.json is missing"):
        TextTokenizer.from_folder(tmp_path)
    path = tmp_path / "tokenizer.json"
    path.write_text("{}")
    with pytest.raises(InputError, match=r"tokenizer\.json is damaged"):
        TextTokenizer.from_folder(tmp_path)
    Tokenizer(models.WordLevel({"a": 0}, unk_token="a")).save(str(path))
    with pytest.raises(InputError, match=r"tokenizer\.json has no pad token"):
        TextTokenizer.from_folder(tmp_path)


def test_a_real_checkpoints_tokenizer(minilm: Path) -> None:
    tokenizer = TextTokenizer.from_folder(minilm)
    assert len(tokenizer) == 30522
    assert tokenizer.max_length == 128
    assert tokenizer.encode("A dog") == [101, 1037, 3899, 102]
    assert len(tokenizer.encode("dog " * 300)) == 128
    assert len(tokenizer.ordinary_ids) == 30522 - 5 - 994


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


def test_words_are_shown_as_typed() -> None:
    shown = [word for _, word in nltk_words('The "Big" Dog CANNOT go')]
    assert shown == ["The", '"', "Big", '"', "Dog", "CAN", "NOT", "go"]
    longer = "\u0130N a Town"  # in lower case longer by a character
    assert [word for _, word in nltk_words(longer)] == ["i\u0307n", "a", "town"]


@given(st.text(max_size=40) | st.text(alphabet="a.\"'` \u0130Z,-(n't", max_size=30))
def test_any_text_is_split(text: str) -> None:
    for word, shown in nltk_words(text):
        assert shown and word and not word.isspace()


def test_without_nltk_an_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    _splitters.cache_clear()
    monkeypatch.setitem(sys.modules, "punkt", None)
    with pytest.raises(InputError, match=r"pip install '.*\[train\]'"):
        nltk_words("a")
