from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer, models

from sparta.tokenizer import WordPieceTokenizer, text_frequencies
from tests import tiny


@pytest.fixture(scope="module")
def tokenizer() -> WordPieceTokenizer:
    return tiny.tokenizer()


def test_query_keeps_words_as_typed_with_their_pieces(tokenizer: WordPieceTokenizer) -> None:
    query = tokenizer.encode_query("Running DOGS, dog zebra [MASK] dog")
    assert [word.text for word in query.words] == [
        "Running",
        "DOGS",
        ",",
        "dog",
        "zebra",
        "[MASK]",
        "dog",
    ]
    pieces = [word.pieces for word in query.words]
    assert pieces == [("run", "##ning"), ("dog", "##s"), (), ("dog",), (), (), ("dog",)]
    assert query.terms == {"run": 1, "##ning": 1, "dog": 3, "##s": 1}
    assert query.text == "Running DOGS, dog zebra [MASK] dog"


@pytest.mark.parametrize(
    "text", ["a dog runs", "", "  ", "zebra", "[CLS] dog [SEP][unused0]", "dögs", "dog\x00 the"]
)
def test_ids_are_the_terms_of_the_query(tokenizer: WordPieceTokenizer, text: str) -> None:
    terms = [piece for word in tokenizer.encode_query(text).words for piece in word.pieces]
    assert [tiny.VOCABULARY[i] for i in tokenizer.encode_ids(text)] == terms
    assert not set(terms) & set(tiny.SPECIAL)


def test_long_texts_are_not_cut(tokenizer: WordPieceTokenizer) -> None:
    assert len(tokenizer.encode_ids("dog " * 600)) == 600


def test_special_and_unused_terms_are_not_indexable(tokenizer: WordPieceTokenizer) -> None:
    found = tokenizer.indexable
    assert found.dtype == np.bool_
    assert found.tolist() == [i >= 6 for i in range(len(tiny.VOCABULARY))]


def test_saved_and_read_back(tokenizer: WordPieceTokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path)
    loaded = WordPieceTokenizer.from_folder(tmp_path)
    assert loaded.vocabulary == tiny.VOCABULARY
    assert loaded.vocabulary_hash == tokenizer.vocabulary_hash
    assert loaded.encode_query("two dogs run") == tokenizer.encode_query("two dogs run")


def test_hash_knows_the_order_of_terms() -> None:
    a, b = ({t: i for i, t in enumerate(terms)} for terms in (["[UNK]", "x"], ["x", "[UNK]"]))
    first, second = (
        WordPieceTokenizer(Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]")))
        for vocabulary in (a, b)
    )
    assert first.vocabulary_hash != second.vocabulary_hash


def test_a_folder_without_tokenizer_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"tokenizer\.json is missing"):
        WordPieceTokenizer.from_folder(tmp_path)


def test_a_byte_order_mark_is_no_part_of_the_first_term(tmp_path: Path) -> None:
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(tiny.VOCABULARY) + "\n", encoding="utf-8-sig")
    assert WordPieceTokenizer.from_vocabulary(path).vocabulary == tiny.VOCABULARY


def test_ids_with_gaps_are_refused() -> None:
    gap = Tokenizer(models.WordPiece({"[UNK]": 0, "dog": 2}, unk_token="[UNK]"))
    with pytest.raises(ValueError, match="gaps or doubles"):
        WordPieceTokenizer(gap)


def test_real_vocabulary(minilm: Path) -> None:
    tokenizer = WordPieceTokenizer.from_folder(minilm)
    assert len(tokenizer.vocabulary) == 30522
    # bert-base-uncased has 994 unused entries and five special ones.
    assert tokenizer.indexable.sum() == 30522 - 994 - 5
    assert tokenizer.encode_query("a snowboarder").terms == {
        "a": 1,
        "snow": 1,
        "##board": 1,
        "##er": 1,
    }


def test_text_frequencies_count_texts_not_occurrences() -> None:
    found = text_frequencies(iter([[3, 1, 3], [], [3]]), 5)
    assert found.dtype == np.int64
    assert found.tolist() == [0, 1, 0, 2, 0]
    assert text_frequencies([], 2).tolist() == [0, 0]
