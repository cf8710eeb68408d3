"""Texts → index terms, by the `tokenizers` library alone: queries need no torch.

An index spells its terms in one way, whatever tokenizer made them: `dog` begins a word, or is one,
and "##" stands where a word goes on: `##s` before a piece that continues a word, and `snow##` after
a piece of a tokenizer that marks the ends of words. So what lists, joins or shows terms need not
know the tokenizer.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tokenizers
from numpy.typing import NDArray
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.decoders import WordPiece as WordPieceDecoder
from tokenizers.models import BPE, Unigram, WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from sparta.errors import InputError, first_line
from sparta.query_text import searched

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
CONTINUES = "##"  # in a term, where its word goes on
# The beginning of a term of a script that has no spaces between words: South East Asia's, kana, and
# ideographs. Every piece is a word, as BERT has it of ideographs. Also for JavaScript.
UNSPACED = (
    f"^(?:{CONTINUES})?[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003fffd]"
)
_unspaced = re.compile(UNSPACED).match
_unused = re.compile(r"[\[<]unused\d+[\]>]\Z|<extra_id_\d+>\Z|<0x[0-9A-F]{2}>\Z").match
UNKNOWN = "\U0010fffd"  # a character that no vocabulary has
METASPACE, BYTE_SPACE = "\u2581", "\u0120"  # SentencePiece's and GPT-2's characters for a space
_BYTES = ByteLevelDecoder()


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


class Marks(NamedTuple):
    """How the pieces of a tokenizer that is not BERT's show where words begin or end.

    Attributes:
        begins: mark before a piece that begins a word, "" if none has one.
        ends: mark behind a piece that ends a word, "" if none has one.
        as_bytes: whether pieces spell the bytes of UTF-8 in GPT-2's alphabet.
        before: what a word needs before it to be encoded as in the middle of a text.
    """

    begins: str
    ends: str
    as_bytes: bool
    before: str


class TermTokenizer:
    """A tokenizer read from a model or index folder's `tokenizer.json`.

    Word pieces as BERT's, Unigram or byte pairs with marks of words, as XLM-R, Gemma and CLIP have.

    Attributes:
        ids: term → id.
        vocabulary: [V] terms in id order, spelled as an index spells them.
        marks: of words; None for word pieces, and what else has no such marks.
        lowers: whether the normaliser makes texts lower case.
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
        self._special = {t.content for t in tokenizer.get_added_tokens_decoder().values()}
        self._special.update(term for term in SPECIAL if tokenizer.token_to_id(term) is not None)
        self.marks = _marks_of(tokenizer)
        self._silent = frozenset[int]()  # pieces of texts that are no terms
        if self.marks is not None:
            self._tokenizer.encode_special_tokens = True  # a text spells no special token
            self.vocabulary, self._silent = self._terms(self.vocabulary, self.marks)
        self.ids = {term: i for i, term in enumerate(self.vocabulary)}
        self._parted = _parts_at_spaces(tokenizer)
        self.lowers = "a" in normalised(tokenizer, "A")

    def _terms(self, raw: list[str], marks: Marks) -> tuple[list[str], frozenset[int]]:
        """The terms that pieces are spelled as, and the ids of pieces that are no terms.

        Those have no text, such as special tokens and parts of a character, and stay as they are.
        """
        silent = {piece.id for piece in self._tokenizer.model.tokenize(UNKNOWN)}
        silent |= {i for i, piece in enumerate(raw) if piece in self._special or _unused(piece)}
        begins, ends, known, terms = marks.begins, marks.ends, {*raw}, dict[str, int]()
        for i, piece in enumerate(raw):
            text = "" if i in silent else _text(piece, marks)
            whole = piece.startswith(begins) and piece.endswith(ends)
            if not text or text.isspace():
                silent.add(i)
                text = piece
            elif not whole and (not _unspaced(text) or begins + piece + ends in known):
                text = text + CONTINUES if ends else CONTINUES + text
            if text in terms or " " in text or not text.isprintable():
                text = piece if piece not in terms and [piece] == piece.split() else f"<{i}>"
            terms[text] = i
        return [*terms], frozenset(silent)

    @classmethod
    def from_folder(cls, folder: str | Path) -> TermTokenizer:
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
    def from_vocabulary(cls, path: str | Path) -> TermTokenizer:
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
        """[V] bool: terms that may enter an index, which special and unused tokens never do.

        Nor do pieces without text: marks of words alone, and parts of a character.
        """
        found = [t not in self._special and not _unused(t) for t in self.vocabulary]
        return np.array(found) & ~np.isin(np.arange(len(found)), [*self._silent])

    def fold(self, text: str) -> str:
        """A typed word in lower case, if the tokenizer reads all texts so."""
        return text.lower() if self.lowers else text

    def written(self, text: str, terms: Iterable[str]) -> str:
        """A typed word as the vocabulary writes words; BERT may drop its accents."""
        return (self.marks is None and spelled(terms, "")) or self.fold(text)

    def parts(self, text: str) -> list[str]:
        """Split a text so that its words are those of the parts, one after the other.

        For callers who cache results by part: most parts are dictionary words, and the final full
        stop is a part of its own. For tokenizers without marks other than BERT's the only part is
        the text.
        """
        if self.marks is not None:
            return text.split(" ")
        if not self._parted:
            return [text]
        return [*text[:-1].split(" "), "."] if text.endswith(".") else text.split(" ")

    def encode_query(self, text: str) -> TokenisedQuery:
        """Tokenise one query without special tokens; unknown tokens give a word no pieces."""
        if self.marks is not None:
            return TokenisedQuery(text, tuple(w for one in text.split() for w in self._words(one)))
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

    def _words(self, typed: str) -> Iterator[Word]:
        """The words of a text without white space, by a tokenizer with marks."""
        assert self.marks is not None
        before, begins, vocabulary = self.marks.before, self.marks.begins, self.vocabulary
        encoding = self._tokenizer.encode(before + typed, add_special_tokens=False)
        found: list[tuple[int | None, int, int, list[str]]] = []
        for i, word_id, offsets in zip(
            encoding.ids, encoding.word_ids, encoding.offsets, strict=True
        ):
            if (term := vocabulary[i]) == begins:
                continue
            first, end = (max(place - len(before), 0) for place in offsets)
            last_id, start, last, pieces = found[-1] if found else (-1, 0, 0, [])
            if word_id != last_id or (first >= last and _unspaced(term)):
                start, pieces = first, []
                found.append((word_id, start, end, pieces))
            found[-1] = (word_id, start, end, pieces)
            pieces += [] if i in self._silent else [term]
        for _, start, end, pieces in found:
            yield Word(typed[start:end], tuple(pieces))

    def query_ids(self, text: str) -> list[int]:
        """Word-piece ids of what a search counts of a text; see `sparta/query_text.py`."""
        return self.encode_ids(searched(text))

    def encode_ids(self, text: str) -> list[int]:
        """Word-piece ids of a text without special or unknown tokens, in order."""
        if self.marks is not None:
            return [self.ids[piece] for piece in self.encode_query(text).pieces]
        encoding = self._tokenizer.encode(text, add_special_tokens=False)
        return [
            i
            for i, token in zip(encoding.ids, encoding.tokens, strict=True)
            if token not in self._special
        ]


def spelled(terms: Iterable[str], between: str = " ") -> str:
    """The text of terms that follow each other, with a blank or what else `between` words."""
    text = between.join(terms)
    return text.replace(between + CONTINUES, "").replace(CONTINUES + between, "")


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


def normalised(tokenizer: tokenizers.Tokenizer, text: str) -> str:
    """What the normaliser of a tokenizer makes of a text."""
    normalizer = tokenizer.normalizer
    return text if normalizer is None else str(normalizer.normalize_str(text))


def _marks_of(tokenizer: tokenizers.Tokenizer) -> Marks | None:
    """The marks that the tokenizer puts into a text, found by having it split one."""
    model, splitter, text = tokenizer.model, tokenizer.pre_tokenizer, normalised(tokenizer, "a 字")
    if not isinstance(model, BPE | Unigram):
        return None
    if splitter is not None:
        text = "".join(part for part, _ in splitter.pre_tokenize_str(text))
    begins = next((mark for mark in (METASPACE, BYTE_SPACE) if mark in text), "")
    ends = (isinstance(model, BPE) and model.end_of_word_suffix) or ""
    before = " " if begins and not text.startswith(begins) else ""
    return Marks(begins, ends, "字" not in text, before) if begins or ends else None


def _text(piece: str, marks: Marks) -> str:
    """The text of a piece without marks; "" if its bytes are no whole characters."""
    text = piece.removeprefix(marks.begins).removesuffix(marks.ends)
    if not marks.as_bytes:
        return text.replace(METASPACE, " ")
    decoded: str = _BYTES.decode([text])
    return "" if "\ufffd" in decoded else decoded
