"""Word pieces of texts and of their parts, and tables of words."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers

from sparta.errors import InputError
from sparta.tokenizer import TermTokenizer, Word
from sparta.word_tables import RARE_TERMS, SUBSTITUTES, Substitute, WordTables
from tests import tiny


@pytest.fixture(scope="module")
def tiny_tokenizer() -> TermTokenizer:
    return tiny.tokenizer()


def test_query_keeps_words_as_typed_with_their_pieces(tiny_tokenizer: TermTokenizer) -> None:
    query = tiny_tokenizer.encode_query("Running DOGS, dog zebra [MASK] dog")
    typed = "Running DOGS , dog zebra [MASK] dog"
    assert [word.text for word in query.words] == typed.split(" ")
    pieces = [word.pieces for word in query.words]
    assert pieces == [("run", "##ning"), ("dog", "##s"), (), ("dog",), (), (), ("dog",)]
    assert query.terms == {"run": 1, "##ning": 1, "dog": 3, "##s": 1}
    assert query.text == "Running DOGS, dog zebra [MASK] dog"


@pytest.mark.parametrize(
    "text", ["a dog runs", "", "  ", "zebra", "[CLS] dog [SEP][unused0]", "dögs", "dog\x00 the"]
)
def test_ids_are_the_terms_of_the_query(tiny_tokenizer: TermTokenizer, text: str) -> None:
    terms = [piece for word in tiny_tokenizer.encode_query(text).words for piece in word.pieces]
    assert [tiny.VOCABULARY[i] for i in tiny_tokenizer.encode_ids(text)] == terms
    assert not set(terms) & set(tiny.SPECIAL)


def test_a_byte_order_mark_is_no_part_of_the_first_term(tmp_path: Path) -> None:
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(tiny.VOCABULARY) + "\n", encoding="utf-8-sig")
    assert TermTokenizer.from_vocabulary(path).vocabulary == tiny.VOCABULARY


def test_ids_with_gaps_are_refused() -> None:
    gap = Tokenizer(models.WordPiece({"[UNK]": 0, "dog": 2}, unk_token="[UNK]"))
    with pytest.raises(ValueError, match="gaps or doubles"):
        TermTokenizer(gap)


def test_real_vocabulary(minilm: Path) -> None:
    tokenizer = TermTokenizer.from_folder(minilm)
    assert len(tokenizer.vocabulary) == 30522
    # bert-base-uncased has 994 unused entries and five special ones.
    assert tokenizer.indexable.sum() == 30522 - 994 - 5
    terms = {"a": 1, "snow": 1, "##board": 1, "##er": 1}
    assert tokenizer.encode_query("a snowboarder").terms == terms


ODD = [
    *"abcDEFéÉßİ\u0131ñçøΣς.,!?'\"-_()[]#$@|",
    *"犬日本한글あＡⅣﬁ\u0301\u0308\u200b\u200d\ufeff\u00a0\u2028\u3000\ufffd\U00020000",
    *"\t\n\r\x00\x01\x7f\x85🐕",
    *["👩\u200d👧\U0001f3fd", " ", " ", " ", "  ", " \u0301"],
    *["[MASK]", " [MASK] ", "[mask]", "[UNK]"],
    *["##s", "dogs", "DOGS", "running", "sunny", "unbelievably", "caf\u00e9", "x" * 101],
]
OPTIONS = [(True, None), (False, False), (False, True)]  # lower case, without accents


def bert(lowercase: bool, strip_accents: bool | None) -> Tokenizer:
    letters = [chr(i) for i in range(33, 127)] + [*"éßñ犬日本한🐕"]
    words = ["dog", "run", "sun", "cafe", "caf", "##é", "##ning", "##ny", "##s", "##字"]
    terms = dict.fromkeys(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *words])
    tokenizer = Tokenizer(models.WordPiece({t: i for i, t in enumerate(terms)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(
        lowercase=lowercase, strip_accents=strip_accents
    )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    return tokenizer


def words_of_parts(tokenizer: TermTokenizer, text: str) -> tuple[Word, ...]:
    return tuple(word for p in tokenizer.parts(text) for word in tokenizer.encode_query(p).words)


TOKENIZERS = [TermTokenizer(bert(*options)) for options in OPTIONS]


@settings(max_examples=600)
@given(pieces=st.lists(st.sampled_from(ODD) | st.characters(codec="utf-8"), max_size=12))
def test_parts_have_the_words_of_the_text(pieces: list[str]) -> None:
    text = "".join(pieces)
    for tokenizer in TOKENIZERS:
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
        assert TermTokenizer(tokenizer).parts("a b [A B]") == ["a b [A B]"]


def test_tables_are_read_as_written(tmp_path: Path) -> None:
    words = {"sloop": (Substitute("boat", 0.67), Substitute("ship", 0.5)), "köter": ()}
    WordTables.of(words).save(str(tmp_path))
    assert WordTables.open(str(tmp_path)).substitutes == words
    lines = (tmp_path / SUBSTITUTES).read_text(encoding="utf-8").splitlines()
    assert lines[1:3] == ['"köter": [],', '"sloop": [["boat", 0.67], ["ship", 0.5]]']
    (tmp_path / RARE_TERMS).write_text('{"photos": 10, "terms": ["boat", "##köter"]}', "utf-8")
    assert WordTables.open(tmp_path).rare == {"boat", "##köter"}


def test_a_folder_without_tables_has_empty_ones(tmp_path: Path) -> None:
    tables = WordTables.open(tmp_path)
    assert (tables.substitutes, tables.rare) == ({}, frozenset())
    tables.save(tmp_path)
    assert not any(tmp_path.iterdir())


WORDS = '{"format_version": %s}'
DAMAGED = {
    SUBSTITUTES: ["{", "[]", WORDS % '2, "words": {}', WORDS % '1, "words": []'],
    RARE_TERMS: ["{", "[]", "\xff", '{"photos": 10, "terms": ["boat", 1]}'],
}
DAMAGED[SUBSTITUTES] += [WORDS % '1, "words": {"sloop": [["boat", "near"]]}']


@pytest.mark.parametrize(
    ("name", "content"), [(name, text) for name, texts in DAMAGED.items() for text in texts]
)
def test_a_damaged_table_or_one_of_another_format_is_refused(
    tmp_path: Path, name: str, content: str
) -> None:
    (tmp_path / name).write_text(content, "latin-1")
    with pytest.raises(InputError, match=r"is not a (table of substitutes|list of rare)") as error:
        WordTables.open(tmp_path)
    said = str(error.value)
    assert said.startswith(f"{tmp_path / name} is") and "\n" not in said


def test_what_was_read_is_parsed_when_it_is_needed(tmp_path: Path) -> None:
    tables = WordTables.of({"sloop": (Substitute("boat", 0.5),)})
    tables.save(tmp_path)
    read = WordTables.reading(tmp_path)
    (tmp_path / SUBSTITUTES).write_text("{")  # replaced meanwhile
    assert read.substitutes == tables.substitutes
    assert read.substitutes is read.substitutes
    damaged = WordTables.reading(tmp_path)
    with pytest.raises(InputError, match="not a table of substitutes"):
        _ = damaged.substitutes
