"""Word pieces ↔ ids ↔ index terms, by the `tokenizers` library alone: queries need no torch."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tokenizers
from numpy.typing import NDArray
from tokenizers.decoders import WordPiece as WordPieceDecoder
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from sparta.errors import InputError, first_line

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_UNUSED = re.compile(r"\[unused\d+\]")


@dataclass(frozen=True)
class Word:
    """A word as the user typed it, with its word pieces ([] if the vocabulary has none)."""

    text: str
    pieces: tuple[str, ...]


@dataclass(frozen=True)
class TokenisedQuery:
    """A tokenised query: its words, and how often each term occurs (a term twice counts twice)."""

    text: str
    words: tuple[Word, ...]

    @property
    def pieces(self) -> list[str]:
        """The m tokens of equation 12, in order."""
        return [piece for word in self.words for piece in word.pieces]

    @property
    def terms(self) -> Counter[str]:
        """Term → count over all words."""
        return Counter(self.pieces)


class WordPieceTokenizer:
    """A BERT-like tokenizer read from a model or index folder's `tokenizer.json`.

    Attributes:
        ids: term → id.
        vocabulary: [V] terms in id order.
    """

    def __init__(self, tokenizer: tokenizers.Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        # Asking for one term after another takes half the time of sorting `get_vocab()`.
        numbers = range(tokenizer.get_vocab_size())
        terms = map(tokenizer.id_to_token, numbers)
        self.vocabulary = [term for term in terms if term is not None]
        if len(self.vocabulary) < len(numbers):
            raise ValueError("the tokenizer's ids are not 0 to n-1: it has gaps or doubles")
        self.ids = {term: i for i, term in enumerate(self.vocabulary)}
        self._special = {t.content for t in tokenizer.get_added_tokens_decoder().values()}
        self._special |= self.ids.keys() & SPECIAL
        self._parted = _parts_at_spaces(tokenizer)

    @classmethod
    def from_folder(cls, folder: str | Path) -> WordPieceTokenizer:
        """Read `folder/tokenizer.json`.

        Raises:
            FileNotFoundError: if the folder has no `tokenizer.json`.
            InputError: if it is damaged.
        """
        path = Path(folder) / "tokenizer.json"
        if not path.is_file():
            raise FileNotFoundError(f"{path} is missing: {folder} is not a model or index folder")
        try:
            return cls(tokenizers.Tokenizer.from_file(str(path)))
        except Exception as error:  # the library raises no class of its own
            raise InputError(f"{path} is damaged or no tokenizer ({first_line(error)})") from error

    @classmethod
    def from_vocabulary(cls, path: str | Path) -> WordPieceTokenizer:
        """Read a `vocab.txt`, one term a line, as an uncased BERT's tokenizer.

        Raises:
            FileNotFoundError: if there is no such file.
            ValueError: if a term appears twice, a special one is missing, or it is not UTF-8.
        """
        # Only line feeds separate terms: some terms are other separators.
        terms = Path(path).read_text(encoding="utf-8-sig").removesuffix("\n").split("\n")
        ids = {term: i for i, term in enumerate(terms)}
        if len(ids) < len(terms):
            doubled = next(term for i, term in enumerate(terms) if ids[term] != i)
            raise ValueError(f"{doubled!r} is in the vocabulary twice")
        if missing := [term for term in SPECIAL if term not in ids]:
            raise ValueError(f"the vocabulary lacks {', '.join(missing)}")
        tokenizer = tokenizers.Tokenizer(WordPiece(ids, unk_token="[UNK]"))
        tokenizer.normalizer = BertNormalizer(lowercase=True)
        tokenizer.pre_tokenizer = BertPreTokenizer()
        tokenizer.decoder = WordPieceDecoder()
        tokenizer.add_special_tokens(list(SPECIAL))
        return cls(tokenizer)

    def save(self, folder: str | Path) -> None:
        """Write `folder/tokenizer.json`."""
        self._tokenizer.save(str(Path(folder) / "tokenizer.json"))

    def to_json(self) -> str:
        """What `save` writes."""
        text: str = self._tokenizer.to_str()
        return text

    @property
    def vocabulary_hash(self) -> str:
        """SHA-256 over the terms in id order: two folders with equal hashes share all ids."""
        return hashlib.sha256("\n".join(self.vocabulary).encode()).hexdigest()

    @property
    def indexable(self) -> NDArray[np.bool_]:
        """[V] bool: terms that may enter an index, which special and unused tokens never do."""
        return np.array(
            [t not in self._special and not _UNUSED.fullmatch(t) for t in self.vocabulary]
        )

    def parts(self, text: str) -> list[str]:
        """Split a text so that its words are those of the parts, one after the other.

        For callers who cache results by part: most parts are dictionary words, and the final full
        stop is a part of its own. For tokenizers other than BERT's the only part is the text.
        """
        if not self._parted:
            return [text]
        return [*text[:-1].split(" "), "."] if text.endswith(".") else text.split(" ")

    def encode_query(self, text: str) -> TokenisedQuery:
        """Tokenise one query without special tokens; unknown tokens give a word no pieces."""
        encoding = self._tokenizer.encode(text, add_special_tokens=False)
        words: dict[int, tuple[int, int, list[str]]] = {}
        for token, word_id, (start, end) in zip(
            encoding.tokens, encoding.word_ids, encoding.offsets, strict=True
        ):
            if word_id is None:
                # A special token's spelling typed by the user ("[MASK]") is an unknown word.
                word_id = -start - 1
            first, _, pieces = words.get(word_id, (start, end, []))
            if token not in self._special:
                pieces.append(token)
            words[word_id] = (first, end, pieces)
        return TokenisedQuery(
            text, tuple(Word(text[a:b], tuple(pieces)) for a, b, pieces in words.values())
        )

    def encode_ids(self, text: str) -> list[int]:
        """Word-piece ids of a text without special or unknown tokens, in order."""
        encoding = self._tokenizer.encode(text, add_special_tokens=False)
        return [
            i
            for i, token in zip(encoding.ids, encoding.tokens, strict=True)
            if token not in self._special
        ]


def text_frequencies(texts: Iterable[Iterable[int]], vocabulary: int) -> NDArray[np.int64]:
    """How many texts, as term ids, contain each term, [V] int64; twice in a text counts once."""
    found = Counter(term for text in texts for term in set(text))
    frequencies = np.zeros(vocabulary, np.int64)
    frequencies[list(found.keys())] = list(found.values())
    return frequencies


def _parts_at_spaces(tokenizer: tokenizers.Tokenizer) -> bool:
    """Whether a text's words are those of its parts between spaces and before its last stop.

    BERT's way of cleaning looks at one character at a time, its words end at spaces, and a stop
    is a word of its own; only a special token that holds one of these or swallows a space could
    reach from one part into the next.
    """
    special = tokenizer.get_added_tokens_decoder().values()
    return (
        isinstance(tokenizer.normalizer, BertNormalizer)
        and isinstance(tokenizer.pre_tokenizer, BertPreTokenizer)
        and not any(
            {" ", "."} & {*token.content} or token.lstrip or token.rstrip for token in special
        )
    )
