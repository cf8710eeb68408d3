"""The vocabulary of a published index, its terms' frequencies, and their substitutes."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import tokenizers
from numpy.typing import NDArray
from scipy.sparse import csc_array

from server.publish.characters import characters, check_tokenizer
from server.publish.collection import Collection
from server.publish.folder import SiteFolder
from server.publish.packs import deflated, leb128


def write_words(site: SiteFolder, collection: Collection) -> dict[str, Any]:
    """Write what reads queries: the vocabulary, and what the tokenizer makes of characters.

    Raises:
        InputError: if a browser cannot read queries as the tokenizer does.
    """
    tokenizer = tokenizers.Tokenizer.from_str(collection.tokenizer.to_json())
    check_tokenizer(tokenizer)
    special = [token.content for token in tokenizer.get_added_tokens_decoder().values()]
    words = {
        "vocabulary": collection.tokenizer.vocabulary,
        "special": special,
        "longest": tokenizer.model.max_input_chars_per_word,
        "characters": characters(tokenizer),
    }
    return {"words": site.put_named("index/words", ".bin", deflated(as_json(words)))}


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
        "terms": site.put_named("index/terms", ".bin", deflated(*parts)),
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
    for word, nearest in sorted(collection.substitutes.words.items()):
        best = next((one for one in nearest if held(one.term)), None)
        if best and not held(word):
            found[word] = [ids[best.term], best.similarity]
    return site.put_named("index/substitutes", ".bin", deflated(as_json(found))) if found else None


def as_json(value: Any) -> bytes:
    """As short as JSON can be, in UTF-8."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
