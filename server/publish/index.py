"""Writes the index of a site: its vocabulary, terms, fields and packs."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from itertools import groupby

import numpy as np
import tokenizers
from numpy.typing import NDArray
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from indexer.fields.columns import FieldColumn, part_of
from indexer.fields.kinds import FOLDER, PATH, Kind
from indexer.search.words import FUNCTION_WORDS
from server.publish import packs
from server.publish.collection import Collection, Impacts
from server.publish.folder import MARKER, SiteFolder, digest
from sparta.errors import InputError
from sparta.json_values import Json, JsonMapping
from sparta.progress import Progress, no_progress
from sparta.tokenizer import UNSPACED, Marks, TermTokenizer, normalised
from sparta.word_tables import Spelling

FORMAT = 1
MANY = 100_000  # images, of more of which smaller parts of lists can be left out
LAST = 0x10FFFF
SYLLABLE = "\uac01"  # of Hangul
SURROGATES = range(0xD800, 0xE000)
_LOOKED_AT = 256  # characters that are looked at together, as most blocks have only one kind
_TYPES: Mapping[Kind, str] = {"number": "<f8", "date": "<i8", "boolean": "u1", "geo": "<f8"}
Runs = list[list[int]]  # first and last of each run
REFUSED = (
    "the index's tokenizer has a {}: a browser cannot read queries as it does; publish an index of "
    "another model"
)
# How GPT-2 splits a text into words.
GPT_2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


def write_index(
    site: SiteFolder,
    collection: Collection,
    show: packs.Show,
    *,
    kinds: Mapping[str, Kind] | None = None,
    paths: bool = True,
    about: JsonMapping | None = None,
    file_bytes: int = packs.FILE,
    chunk: int | None = None,
    progress: Progress = no_progress,
) -> list[str]:
    """Write an index that a browser searches, its first file last.

    `show` gives what is published of a document, `about` what else the index says of itself;
    `kinds` are declared kinds of fields, and `paths` says whether the published ids are paths. A
    pack's files have at most `file_bytes`, a chunk has about `chunk` postings, None for what suits
    the number of images. Progress has the stage "records", in images. Returns the files that a
    browser fetches before any query. Raises InputError if a browser cannot read queries as the
    index's tokenizer does.
    """
    if chunk is None:
        chunk = packs.CHUNK if len(collection) <= MANY else packs.CHUNK // 4
    columns = collection.by_position()
    frequencies = np.diff(columns.starts)
    falling = np.argsort(-frequencies, kind="stable")
    rows = falling[: np.count_nonzero(frequencies)]
    images = [show(document) for document in collection.order.tolist()]
    made = {
        "postings": packs.posting_chunks(columns, len(collection), rows, collection.bits, chunk),
        "bounds": packs.bound_chunks(columns, len(collection), rows, collection.bits, chunk),
        "records": packs.record_chunks(collection, show, progress),
        "ranks": packs.rank_chunks(collection.order),
        "ids": packs.id_chunks([image.image_id for image in images]),
    }
    own = {
        "format": FORMAT,
        "images": len(collection),
        "bits": collection.bits,
        "superblock": packs.SUPERBLOCK,
        "chunk": chunk,
        "record": packs.IMAGES,
        **write_words(site, collection),
        **write_terms(site, collection, columns, frequencies),
        "fields": write_fields(site, images, kinds or {}, paths),
        "packs": {
            name: packs.write_pack(site, name, chunks, file_bytes) for name, chunks in made.items()
        },
        **(about or {}),
    }
    own["bytes"] = sum(size for path, size in site.sizes.items() if path.startswith("index/"))
    own["version"] = digest(packs.as_json(own))
    site.put(MARKER, packs.as_json(own))
    small = [
        pack["directory"]
        for name, pack in own["packs"].items()
        if name != "ids" and len(pack["pieces"]) == 1
    ]
    return [MARKER, *(f"index/{name}" for name in (own["words"], own["terms"], *small))]


def write_fields(
    site: SiteFolder, images: Sequence[packs.Shown], kinds: Mapping[str, Kind], paths: bool
) -> Json:
    """Write the fields of images [N] by position; ids that are paths (`paths`) are fields, too.

    Returns by the name of each field its kind and its file.
    """
    part = part_of(((image.image_id, image.metadata) for image in images), kinds)
    written = {}
    for name, column in sorted(part.columns.items()):
        if paths or name not in (PATH, FOLDER):
            content = packs.deflated(_packed(column))
            written[name] = [column.kind, site.put_named("index/field", content)]
    return written


def _packed(column: FieldColumn) -> bytes:
    """How many values each image has, then the values, after a header with a keyword's words."""
    header = packs.as_json(None if column.words is None else column.words.to_pylist())
    counts = packs.leb128(np.diff(column.starts))
    kind = _TYPES.get(column.kind)
    values = packs.leb128(column.values) if kind is None else column.values.astype(kind)
    return b"".join(map(packs.with_length, [header, counts.tobytes(), values.tobytes()]))


def write_words(site: SiteFolder, collection: Collection) -> Json:
    """Write what reads queries: the vocabulary, its rare terms, and the tokenizer's characters.

    Raises InputError if a browser cannot read queries as the tokenizer does.
    """
    tokenizer = tokenizers.Tokenizer.from_str(collection.tokenizer.to_json())
    marks, special = collection.tokenizer.marks, list[str]()
    if marks is None:
        check_tokenizer(tokenizer)
        special = [token.content for token in tokenizer.get_added_tokens_decoder().values()]
    vocabulary, rare = collection.tokenizer.vocabulary, collection.tables.rare
    spelling = collection.tables.spelling
    words = {
        "vocabulary": vocabulary,
        "special": special,
        "longest": 0 if marks else tokenizer.model.max_input_chars_per_word,
        "characters": characters(tokenizer, marks is not None),
        "rare": [number for number, term in enumerate(vocabulary) if term in rare],
        "frequent": [] if spelling is None else spelling.frequent,
        "functionWords": sorted(FUNCTION_WORDS),
    }
    if marks is not None:
        words["pieces"] = _pieces(tokenizer, collection.tokenizer, marks)
    return {
        "words": site.put_named("index/words", packs.deflated(packs.as_json(words))),
        "spelling": _write_spelling(site, spelling),
    }


def _write_spelling(site: SiteFolder, spelling: Spelling | None) -> str | None:
    """Write the correct words of several pieces that are not frequent."""
    if spelling is None:
        return None
    others = sorted(spelling.correct.difference(spelling.frequent))
    return site.put_named("index/spelling", packs.deflated(packs.as_json(others)))


def write_terms(
    site: SiteFolder, collection: Collection, columns: Impacts, frequencies: NDArray[np.int64]
) -> Json:
    """Write what is known of each term: its images, and its largest impact."""
    present = np.flatnonzero(frequencies)
    starts, _, impacts = columns
    largest = np.maximum.reduceat(impacts, starts[present]) if len(present) else impacts
    parts = [packs.leb128(frequencies).tobytes(), packs.leb128(largest).tobytes()]
    return {
        "terms": site.put_named("index/terms", packs.deflated(*parts)),
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
    return (
        site.put_named("index/substitutes", packs.deflated(packs.as_json(found))) if found else None
    )


# What a tokenizer makes of every character, so that a browser needs no tables of its own.
#
# BERT's way of cleaning a text looks at one character at a time: it drops it, keeps it, or puts one
# or more others in its place; and each of those separates words, is a word of its own, or is a part
# of one. Asking the tokenizer about all characters gives the very tables of its version of Unicode.


def check_tokenizer(tokenizer: tokenizers.Tokenizer) -> None:
    """Raise InputError, naming the part that is different, for a tokenizer that is not BERT's."""
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
            raise InputError(REFUSED.format(f"{name} that is not BERT's"))


def _pieces(tokenizer: tokenizers.Tokenizer, terms: TermTokenizer, marks: Marks) -> Json:
    """The model of a tokenizer that marks words, for JSON; see `Pieces` in search/pieces.js."""
    settings, normalise = json.loads(tokenizer.to_str()), partial(_inside, tokenizer)
    model = settings["model"]
    if model.get("continuing_subword_prefix") or model.get("ignore_merges"):
        raise InputError(REFUSED.format(f"model ({model['type']}) with unusual options"))
    scores = [score for _, score in model["vocab"]] if model["type"] == "Unigram" else []
    merged = [tokenizer.token_to_id(piece) for pair in model.get("merges", ()) for piece in pair]
    composes = normalise("e\u0301") == "\u00e9"
    return {
        **marks._asdict(),
        "raw": [*map(tokenizer.id_to_token, range(len(scores) or len(terms.vocabulary)))],
        "silent": np.flatnonzero(~terms.indexable).tolist(),
        "split": _patterns(settings["pre_tokenizer"]),
        "form": "NFKC" if normalise("\uff76\uff9e") == "\u30ac" else "NFC" if composes else None,
        "unspaced": UNSPACED,
        "scores": scores,
        "merges": merged,
    }


def _patterns(splitter: Json) -> list[str]:
    """The patterns whose matches are the parts of a word, one after the other."""
    match splitter:
        case {"type": "Sequence", "pretokenizers": parts}:
            return [one for part in parts for one in _patterns(part)]
        case {"type": "ByteLevel", "use_regex": regex}:
            return [GPT_2] if regex else []
        case {"pattern": {"Regex": regex}} if (
            (splitter["behavior"], splitter["invert"]) in (("Removed", True), ("Isolated", False))
            and not re.search(r"[?*+]\+|\(\?i", regex)  # which browsers lack
        ):
            return [regex]
        case None | {"type": "Metaspace" | "WhitespaceSplit"} | {"pattern": {"String": " "}}:
            return []
    raise InputError(REFUSED.format(f"pre-tokenizer ({splitter['type']}) of another kind"))


def _inside(tokenizer: tokenizers.Tokenizer, text: str) -> str:
    """What the normaliser of whole texts makes of characters within a word."""
    return normalised(tokenizer, f"0{text}0").partition("0")[2].rpartition("0")[0]


def characters(tokenizer: tokenizers.Tokenizer, marked: bool) -> Json:
    """The tables of a tokenizer, `marked` if it marks words, for JSON.

    Returns:
        `dropped` and `spaced` (as words of their own), runs of characters; `changed`, a text of
        characters, and `into`, what takes the place of each; `hangul`, whether syllables of Hangul
        are taken apart, which a formula does; `spaces` and `signs`, runs of characters that
        separate words or are words of their own, once the text is cleaned.
    """
    settings = json.loads(tokenizer.to_str())
    splitter = None if marked else settings["pre_tokenizer"]
    return _characters(json.dumps(settings["normalizer"]), json.dumps(splitter))


@lru_cache(4)
def _characters(normalizer: str, pre_tokenizer: str) -> Json:
    """The tables of two parts of a tokenizer, as it writes them; asking takes two seconds."""
    parts = {"normalizer": json.loads(normalizer), "pre_tokenizer": json.loads(pre_tokenizer)}
    model = {"type": "WordPiece", "vocab": {"[UNK]": 0}, "unk_token": "[UNK]"}
    whole = {**model, "continuing_subword_prefix": "##", "max_input_chars_per_word": 100}
    tokenizer = tokenizers.Tokenizer.from_str(json.dumps({"model": whole} | parts))
    if (splitter := tokenizer.pre_tokenizer) is None:
        normalise, split = partial(_inside, tokenizer), str.split
    else:
        normalise, split = tokenizer.normalizer.normalize_str, splitter.pre_tokenize_str
    dropped: list[int] = []
    spaced: list[int] = []
    spaces: list[int] = []
    signs: list[int] = []
    changed: list[tuple[str, str]] = []
    for first in range(0, LAST + 1, _LOOKED_AT):
        if first in SURROGATES:  # halves of pairs, which no text has
            continue
        block = [chr(code) for code in range(first, first + _LOOKED_AT)]
        text = "".join(block)
        for char in block if normalise(text) != text else ():
            made = normalise(char)
            if not made:
                dropped.append(ord(char))
            elif made == f" {char} ":
                spaced.append(ord(char))
            # A formula takes syllables of Hangul apart.
            elif made != char and not (
                "\uac00" <= char <= "\ud7a3" and made == unicodedata.normalize("NFD", char)
            ):
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


def _runs(codes: list[int]) -> Runs:
    """Rising numbers as runs."""
    runs = []
    for _, own in groupby(enumerate(codes), lambda pair: pair[1] - pair[0]):
        group = [code for _, code in own]
        runs.append([group[0], group[-1]])
    return runs
