"""A small vocabulary of words, word pieces and special tokens, and its tokenizer."""

from collections.abc import Sequence

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from sparta.tokenizer import TermTokenizer

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[unused0]"]
WORDS = ["dog", "cat", "beach", "ball", "red", "sky", "run", ".", "...", "|", "_", "é", "犬"]
PIECES = ["##s", "##ning", "##ny"]
RARE = "zebra"  # in the vocabulary, in no image
COMMON = "the"  # in every image
EVERY_WORD = [*WORDS, COMMON, RARE, "dogs", "running", "sunny", "qqq", "[MASK]"]  # that tests ask


def small_tokenizer(words: Sequence[str] = (*WORDS, *PIECES, RARE, COMMON)) -> TermTokenizer:
    terms = [*SPECIAL, *words]
    vocabulary = {term: i for i, term in enumerate(terms)}
    inner = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    inner.normalizer = normalizers.BertNormalizer(strip_accents=False)
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    inner.add_special_tokens(SPECIAL[:5])
    return TermTokenizer(inner)


TOKENIZER = small_tokenizer()
