"""The vocabulary of a published index, its terms' frequencies, and their substitutes."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from itertools import groupby
from typing import Any

import numpy as np
import tokenizers
from numpy.typing import NDArray
from scipy.sparse import csc_array
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from server.publish.collection import Collection
from server.publish.folder import SiteFolder
from server.publish.packs import as_json, deflated, leb128
from sparta.errors import InputError

LAST = 0x10FFFF
SYLLABLE = "\uac01"  # of Hangul
SURROGATES = range(0xD800, 0xE000)
_BLOCK = 256  # characters that are looked at together, as most blocks have only one kind
Runs = list[list[int]]  # first and last of each run


def write_words(site: SiteFolder, collection: Collection) -> dict[str, Any]:
    """Write what reads queries: the vocabulary, its rare terms, and the tokenizer's characters.

    Raises:
        InputError: if a browser cannot read queries as the tokenizer does.
    """
    tokenizer = tokenizers.Tokenizer.from_str(collection.tokenizer.to_json())
    check_tokenizer(tokenizer)
    special = [token.content for token in tokenizer.get_added_tokens_decoder().values()]
    vocabulary, rare = collection.tokenizer.vocabulary, collection.tables.rare
    words = {
        "vocabulary": vocabulary,
        "special": special,
        "longest": tokenizer.model.max_input_chars_per_word,
        "characters": characters(tokenizer),
        "rare": [number for number, term in enumerate(vocabulary) if term in rare],
    }
    return {"words": site.put_named("index/words", deflated(as_json(words)))}


def write_terms(
    site: SiteFolder, collection: Collection, columns: csc_array, frequencies: NDArray[np.int64]
) -> dict[str, Any]:
    """Write what is known of each term: in how many images it is, and its largest impact there.

    Args:
        site: the folder.
        collection: of the images.
        columns: [N, V] impacts.
        frequencies: [V] of the terms.
    """
    present = np.flatnonzero(frequencies)
    starts = columns.indptr[present]
    largest = np.maximum.reduceat(columns.data, starts) if len(present) else columns.data
    parts = [leb128(frequencies).tobytes(), leb128(largest).tobytes()]
    return {
        "terms": site.put_named("index/terms", deflated(*parts)),
        "substitutes": _write_substitutes(site, collection, frequencies),
    }


def _write_substitutes(
    site: SiteFolder, collection: Collection, frequencies: NDArray[np.int64]
) -> str | None:
    """Write the best substitute of each word that no image has, of those that some image has."""
    ids = {term: number for number, term in enumerate(collection.tokenizer.vocabulary)}

    def held(term: str) -> bool:
        return term in ids and frequencies[ids[term]] > 0

    found = {}
    for word, nearest in sorted(collection.tables.substitutes.items()):
        best = next((one for one in nearest if held(one.term)), None)
        if best and not held(word):
            found[word] = [ids[best.term], best.similarity]
    return site.put_named("index/substitutes", deflated(as_json(found))) if found else None


# What a tokenizer makes of every character, so that a browser needs no tables of its own.
#
# BERT's way of cleaning a text looks at one character at a time: it drops it, keeps it, or puts one
# or more others in its place; and each of those separates words, is a word of its own, or is a part
# of one. Asking the tokenizer about all characters gives the very tables of its version of Unicode.


def check_tokenizer(tokenizer: tokenizers.Tokenizer) -> None:
    """Refuse a tokenizer that is not BERT's.

    Raises:
        InputError: naming the part that is different.
    """
    model = tokenizer.model
    parts = {
        "normaliser": isinstance(tokenizer.normalizer, BertNormalizer),
        "pre-tokenizer": isinstance(tokenizer.pre_tokenizer, BertPreTokenizer),
        "model": isinstance(model, tokenizers.models.WordPiece)
        and (model.continuing_subword_prefix, model.unk_token) == ("##", "[UNK]"),
        "special tokens": not any(
            token.lstrip or token.rstrip or token.single_word or token.normalized
            for token in tokenizer.get_added_tokens_decoder().values()
        ),
    }
    for name, known in parts.items():
        if not known:
            raise InputError(
                f"the index's tokenizer has a {name} that is not BERT's: a browser cannot read "
                "queries as it does; publish an index of another model"
            )


def characters(tokenizer: tokenizers.Tokenizer) -> dict[str, Any]:
    """The tables of a tokenizer, for JSON.

    Returns:
        `dropped` and `spaced` (as words of their own), runs of characters; `changed`, a text of
        characters, and `into`, what takes the place of each; `hangul`, whether syllables of Hangul
        are taken apart, which a formula does; `spaces` and `signs`, runs of characters that
        separate words or are words of their own, once the text is cleaned.
    """
    settings = json.loads(tokenizer.to_str())
    return _characters(json.dumps(settings["normalizer"]), json.dumps(settings["pre_tokenizer"]))


@lru_cache(4)
def _characters(normalizer: str, pre_tokenizer: str) -> dict[str, Any]:
    """The tables of two parts of a tokenizer, as it writes them; asking takes two seconds."""
    parts = {"normalizer": json.loads(normalizer), "pre_tokenizer": json.loads(pre_tokenizer)}
    model = {"type": "WordPiece", "vocab": {"[UNK]": 0}, "unk_token": "[UNK]"}
    whole = {**model, "continuing_subword_prefix": "##", "max_input_chars_per_word": 100}
    tokenizer = tokenizers.Tokenizer.from_str(json.dumps({"model": whole} | parts))
    normalise = tokenizer.normalizer.normalize_str
    split = tokenizer.pre_tokenizer.pre_tokenize_str
    dropped: list[int] = []
    spaced: list[int] = []
    spaces: list[int] = []
    signs: list[int] = []
    changed: list[tuple[str, str]] = []
    for block in _blocks():
        text = "".join(block)
        for char in block if normalise(text) != text else ():
            made = normalise(char)
            if not made:
                dropped.append(ord(char))
            elif made == f" {char} ":
                spaced.append(ord(char))
            elif made != char and not _is_taken_apart(char, made):
                changed.append((char, made))
        for char in block if len(split(f"a{text}a")) > 1 else ():
            words = len(split(f"a{char}a"))
            if words > 1:
                (spaces if words == 2 else signs).append(ord(char))
    return {
        "dropped": _runs(dropped),
        "spaced": _runs(spaced),
        "changed": "".join(char for char, _ in changed),
        "into": [made for _, made in changed],
        "hangul": normalise(SYLLABLE) != SYLLABLE,
        "spaces": _runs(spaces),
        "signs": _runs(signs),
    }


def _is_taken_apart(char: str, made: str) -> bool:
    """Whether a character is a syllable of Hangul, and its letters took its place."""
    return "\uac00" <= char <= "\ud7a3" and made == unicodedata.normalize("NFD", char)


def _blocks() -> Iterator[list[str]]:
    """All characters but halves of surrogate pairs, which no text has."""
    for first in range(0, LAST + 1, _BLOCK):
        if first not in SURROGATES:
            yield [chr(code) for code in range(first, first + _BLOCK)]


def _runs(codes: list[int]) -> Runs:
    """Rising numbers as runs."""
    runs = []
    for _, own in groupby(enumerate(codes), lambda pair: pair[1] - pair[0]):
        group = [code for _, code in own]
        runs.append([group[0], group[-1]])
    return runs
