"""The word pieces of a text's parts are those of the text."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers

from sparta.tokenizer import Word, WordPieceTokenizer

ODD = [
    *"abcDEFéÉßİ\u0131ñçøΣς.,!?'\"-_()[]#$@|",
    *"犬日本한글あＡⅣﬁ\u0301\u0308\u200b\u200d\ufeff\u00a0\u2028\u3000\ufffd\U00020000",
    *"\t\n\r\x00\x01\x7f\x85🐕",
    *[
        "👩\u200d👧\U0001f3fd",
        " ",
        " ",
        " ",
        "  ",
        " \u0301",
        "[MASK]",
        " [MASK] ",
        "[mask]",
        "[UNK]",
    ],
    *["##s", "dogs", "DOGS", "running", "sunny", "unbelievably", "caf\u00e9", "x" * 101],
]
OPTIONS = [(True, None), (False, False), (False, True)]  # lower case, without accents


def bert(lowercase: bool, strip_accents: bool | None) -> Tokenizer:
    letters = [chr(i) for i in range(33, 127)] + [*"éßñ犬日本한🐕"]
    words = [
        "dog",
        "run",
        "sun",
        "cafe",
        "caf",
        "##é",
        "##ning",
        "##ny",
        *(f"##{c}" for c in "s字"),
    ]
    terms = dict.fromkeys(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *words])
    tokenizer = Tokenizer(
        models.WordPiece({term: i for i, term in enumerate(terms)}, unk_token="[UNK]")
    )
    tokenizer.normalizer = normalizers.BertNormalizer(
        lowercase=lowercase, strip_accents=strip_accents
    )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    return tokenizer


def words_of_parts(tokenizer: WordPieceTokenizer, text: str) -> tuple[Word, ...]:
    return tuple(word for p in tokenizer.parts(text) for word in tokenizer.encode_query(p).words)


TOKENIZERS = [WordPieceTokenizer(bert(*options)) for options in OPTIONS]


@settings(max_examples=600)
@given(pieces=st.lists(st.sampled_from(ODD) | st.characters(codec="utf-8"), max_size=12))
def test_parts_have_the_words_of_the_text(pieces: list[str]) -> None:
    text = "".join(pieces)
    for tokenizer in TOKENIZERS:
        assert all(" " not in part for part in tokenizer.parts(text))
        assert words_of_parts(tokenizer, text) == tokenizer.encode_query(text).words


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", ".", " .", "...", "a.b.", "[MASK].", "two dogs  running, on a\tbeach!"),
        *("two dogs on a beach.", "a [MASK] b", "[MASK][MASK]", "e\u0301 \u0301e"),
    ],
)
def test_parts_of_a_real_vocabulary(minilm: Path, text: str) -> None:
    tokenizer = WordPieceTokenizer.from_folder(minilm)
    assert all(" " not in part for part in tokenizer.parts(text))
    assert words_of_parts(tokenizer, text) == tokenizer.encode_query(text).words


def test_the_stop_at_the_end_stands_alone() -> None:
    assert TOKENIZERS[0].parts("two dogs.") == ["two", "dogs", "."]
    assert TOKENIZERS[0].parts("two. dogs") == ["two.", "dogs"]


def test_texts_that_spaces_do_not_part_stay_whole() -> None:
    swallowing, holding, stopping, other = (bert(True, None) for _ in range(4))
    swallowing.add_special_tokens([AddedToken("[X]", lstrip=True)])
    holding.add_special_tokens(["[A B]"])
    stopping.add_special_tokens(["[A.]"])
    other.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Punctuation()])
    for tokenizer in (swallowing, holding, stopping, other):
        assert WordPieceTokenizer(tokenizer).parts("a b [A B]") == ["a b [A B]"]
