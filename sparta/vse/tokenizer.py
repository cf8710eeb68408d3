"""Texts → ids for the dense models: words of the training captions, or word pieces of a BERT."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

from tokenizers import Encoding, Regex, Tokenizer, models, normalizers, pre_tokenizers

from sparta.errors import InputError
from sparta.extras import require

FILE = "tokenizer.json"
FIRST, LAST = ("<pad>", "<start>", "<end>", "<unk>"), "<mask>"

# Special tokens by what they do, in BERT's spelling, in ours for words, and in RoBERTa's.
_SPELLINGS = {
    "pad": ("[PAD]", "<pad>"),
    "start": ("[CLS]", "<start>", "<s>"),
    "end": ("[SEP]", "<end>", "</s>"),
    "unknown": ("[UNK]", "<unk>"),
    "mask": ("[MASK]", "<mask>"),
}
_UNUSED = re.compile(r"\[unused\d+\]")
_NORMALIZER = normalizers.Sequence(
    [normalizers.NFC(), normalizers.Lowercase(), normalizers.Replace("\u2019", "'")]
)
# Words as the Penn Treebank splits them, as far as captions go: do n't, man 's, t-shirt, 3.50.
_WORD = r"n't\b|'(?:s|m|d|re|ve|ll)\b|\w+?(?=n't\b)|\d+(?:[.,:]\d+)+|\w+(?:-\w+)*|[^\w\s\p{Cc}]"
_SPLITTER = pre_tokenizers.Split(Regex(_WORD), "removed", invert=True)


# A text's words, and how it spells them.
WordSplitter = Callable[[str], list[tuple[str, str]]]


class TextTokenizer:
    """Texts to framed ids, by a tokenizer of words or of word pieces alike.

    What a text spells like a special token ("[MASK]") is ordinary text.

    Args:
        tokenizer: with ids 0 to n-1; its truncation sets `max_length`.
        where: the file or folder it is from, for error messages.
        splitter: splits texts into words, in place of the tokenizer.

    Raises:
        InputError: if the ids have gaps or a special token is missing; names it.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        where: str | Path = "the tokenizer",
        splitter: WordSplitter | None = None,
    ) -> None:
        vocabulary = tokenizer.get_vocab()
        if sorted(vocabulary.values()) != list(range(len(vocabulary))):
            raise InputError(f"{where}: ids are not 0 to {len(vocabulary) - 1}: gaps or doubles")
        special = {role: _find(vocabulary, role, where) for role in _SPELLINGS}
        self.pad_id = special["pad"]  # fills the place behind a short text
        self.start_id, self.end_id = special["start"], special["end"]  # of every text
        self.unknown_id = special["unknown"]  # of words that are not in the vocabulary
        self.mask_id = special["mask"]  # of words that augmentation masks
        excluded = {*special.values(), *tokenizer.get_added_tokens_decoder()}
        excluded |= {i for token, i in vocabulary.items() if _UNUSED.fullmatch(token)}
        self.ordinary_ids = sorted(set(vocabulary.values()) - excluded)  # all others
        # How many ids a framed text may have, None for any number.
        self.max_length: int | None = (tokenizer.truncation or {}).get("max_length")
        tokenizer.no_padding()
        tokenizer.no_truncation()
        self._tokenizer = tokenizer
        self._splitter = splitter

    @classmethod
    def from_captions(cls, texts: Iterable[str], min_count: int = 4) -> TextTokenizer:
        """A vocabulary of the lower-case words that at least `min_count` places in `texts` hold.

        Give it training captions alone. Frequent words get the smaller ids, words equally
        frequent in the order of the alphabet, so that the same captions give the same ids.
        """
        counts: Counter[str] = Counter()
        for text in texts:
            normal = _NORMALIZER.normalize_str(text)
            counts.update(word for word, _ in _SPLITTER.pre_tokenize_str(normal))
        kept = sorted((-count, word) for word, count in counts.items() if count >= min_count)
        words = [*FIRST, *(word for _, word in kept)]
        return cls.from_words({word: i for i, word in enumerate(words)})

    @classmethod
    def from_words(
        cls, word2idx: Mapping[str, int], splitter: WordSplitter | None = None
    ) -> TextTokenizer:
        """A vocabulary made elsewhere, such as VSE++'s; `<mask>` is added last if it is missing.

        Texts are split as `from_captions` splits them, unless there is a splitter. Raises
        InputError if ids have gaps, or one of <pad>, <start>, <end>, <unk> is missing.
        """
        words = {**word2idx}
        words.setdefault(LAST, len(words))
        tokenizer = Tokenizer(models.WordLevel(words, unk_token=FIRST[3]))
        if splitter is None:
            tokenizer.normalizer = _NORMALIZER
            tokenizer.pre_tokenizer = _SPLITTER
        return cls(tokenizer, "the vocabulary", splitter)

    @classmethod
    def from_folder(cls, folder: str | Path, splitter: WordSplitter | None = None) -> TextTokenizer:
        """Read `folder/tokenizer.json`."""
        path = Path(folder) / FILE
        if not path.is_file():
            raise InputError(f"{path} is missing: a model's folder needs its tokenizer")
        try:
            tokenizer = Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises nothing narrower
            raise InputError(f"{path} is damaged: {error}") from error
        return cls(tokenizer, path, splitter)

    def save(self, folder: str | Path) -> None:
        """Write `folder/tokenizer.json`, `max_length` included."""
        copy = Tokenizer.from_str(self._tokenizer.to_str())
        if self.max_length is not None:
            copy.enable_truncation(self.max_length)
        copy.save(str(Path(folder) / FILE))

    def __len__(self) -> int:
        return self._tokenizer.get_vocab_size()

    def words(self, text: str) -> list[list[int]]:
        """Ids of each word: one, or several pieces for a BERT; an unknown word's is unknown_id."""
        return [ids for ids, _ in self._split(text)]

    def frame(self, words: Sequence[Sequence[int]]) -> list[int]:
        """The words in a row between start and end, cut to `max_length` with the end kept."""
        limit = None if self.max_length is None else self.max_length - 1
        begun = [self.start_id, *chain.from_iterable(words)]
        return [*begun[:limit], self.end_id]

    def encode(self, text: str) -> list[int]:
        """A text as the models read it: `frame(words(text))`."""
        return self.frame(self.words(text))

    def unknown(self, text: str) -> list[str]:
        """Words the vocabulary lacks, as typed, in order, each once."""
        return list(
            dict.fromkeys(word for ids, word in self._split(text) if self.unknown_id in ids)
        )

    def _split(self, text: str) -> list[tuple[list[int], str]]:
        """Ids and spelling of each word."""
        if self._splitter is not None:
            ids_of = self._tokenizer.get_vocab()
            split = self._splitter(text)
            return [([ids_of.get(word, self.unknown_id)], shown) for word, shown in split]
        self._tokenizer.encode_special_tokens = True  # a copied tokenizer forgets it
        encoding: Encoding = self._tokenizer.encode(text, add_special_tokens=False)
        words: dict[int | None, tuple[list[int], int, int]] = {}
        for i, word, (start, end) in zip(
            encoding.ids, encoding.word_ids, encoding.offsets, strict=True
        ):
            ids, first, _ = words.get(word, ([], start, end))
            words[word] = ([*ids, i], first, end)
        return [(ids, text[start:end].strip()) for ids, start, end in words.values()]


def _find(vocabulary: Mapping[str, int], role: str, where: str | Path) -> int:
    for token in _SPELLINGS[role]:
        if token in vocabulary:
            return vocabulary[token]
    spellings = " or ".join(_SPELLINGS[role])
    raise InputError(f"{where} has no {role} token ({spellings}): it is not BERT-like")


# ---- NLTK, on whose words the published vocabularies of dense models rest ------------------------


def nltk_words(text: str) -> list[tuple[str, str]]:
    """Split a lower-cased text as NLTK's `word_tokenize` does, and VSE++'s code and its successors.

    Each word comes with how the text spells it: NLTK writes double quotes as `` and ''.
    """
    lowered = text.lower()
    # Lower case can be longer: İ becomes two characters.
    shown = text if len(text) == len(lowered) else lowered
    sentences, words = _splitters()
    found, end = [], 0
    for sentence in sentences.tokenize(lowered):
        for word in words.tokenize(sentence):
            if word in ("``", "''"):
                found.append((word, '"'))
            else:
                start = lowered.index(word, end)
                end = start + len(word)
                found.append((word, shown[start:end]))
    return found


@cache
def _splitters() -> tuple[Any, Any]:
    """NLTK's splitter of sentences, with the English model of a package, and of words."""
    punkt = require("nltk.tokenize.punkt")
    model = require("punkt").load_model("english")
    parameters = punkt.PunktParameters()
    parameters.abbrev_types = set(model.abbrev_types)
    parameters.collocations = set(model.collocations)
    parameters.sent_starters = set(model.sent_starters)
    parameters.ortho_context = defaultdict(int, model.ortho_context)
    return punkt.PunktSentenceTokenizer(parameters), require("nltk.tokenize").NLTKWordTokenizer()
