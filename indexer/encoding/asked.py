"""How frequent terms are in queries: in the models' training captions, or in a file of queries."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from indexer.encoding.term_scores import ImageEncoder
from indexer.pruning import asked_weights
from indexer.settings import ASKED_KINDS
from sparta.errors import InputError
from sparta.tokenizer import Tokenizer, text_frequencies


class AskedTerms(NamedTuple):
    """Weights of terms in the choice of those an image keeps, and their source.

    Attributes:
        source: "model", the SHA-256 of a file of queries, or "none".
        power: of the frequencies, 0 for "none".
        weights: [V] float32, None for "none".
    """

    source: str
    power: float
    weights: NDArray[np.float32] | None


NONE_ASKED = AskedTerms("none", 0.0, None)


def asked_terms(encoder: ImageEncoder, asked: str, power: float) -> AskedTerms:
    """Weigh terms by their frequency in queries.

    Args:
        encoder: with the models and their tokenizer.
        asked: "model", "none", or the path of a text file with one query a line.
        power: p of (frequency + 1)^p, from 0 to 1.

    Returns:
        `NONE_ASKED` for "none", and for "model" where no model records frequencies.

    Raises:
        InputError: if the file cannot be read, is not UTF-8, or has no term of the vocabulary.
    """
    if asked == "none":
        return NONE_ASKED
    if asked == "model":
        found = trained_frequencies(encoder)
        if not found.any():
            return NONE_ASKED
        return AskedTerms(asked, power, asked_weights(found, power))
    text = _read_queries(asked)
    found = _count(text, encoder.tokenizer)
    if not found.any():
        raise InputError(
            f"--asked {asked} has no word of the model's vocabulary: give a file of queries, one "
            "a line"
        )
    source = hashlib.sha256(text.encode()).hexdigest()
    return AskedTerms(source, power, asked_weights(found, power))


def trained_frequencies(encoder: ImageEncoder) -> NDArray[np.int64]:
    """[V] int64: how many training captions contain each term, 0 where unknown.

    Of several models the largest counts: they are usually trained on the same captions.
    """
    found: NDArray[np.int64] = np.max([one.term_frequencies for one in encoder.scorers], axis=0)
    return found


def check_asked(asked: str) -> None:
    """Check a file of queries before there is an encoder, as far as that is possible.

    Raises:
        InputError: if it cannot be read, is not UTF-8, or is blank.
    """
    if asked not in ASKED_KINDS:
        _read_queries(asked)


def _read_queries(asked: str) -> str:
    try:
        text = Path(asked).read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise InputError(
            f"--asked {asked} cannot be read ({error.strerror}): give {', '.join(ASKED_KINDS)} or "
            "a text file of queries, one a line"
        ) from error
    except UnicodeDecodeError as error:
        raise InputError(
            f"--asked {asked} is not UTF-8 text ({error.reason} at byte {error.start}): convert it"
        ) from error
    if not text.strip():
        raise InputError(f"--asked {asked} is empty: give a file of queries, one a line")
    return text


def _count(text: str, tokenizer: Tokenizer) -> NDArray[np.int64]:
    """[V] int64: how many lines contain each term."""
    lines = map(tokenizer.encode_ids, text.split("\n"))
    return text_frequencies(lines, len(tokenizer.vocabulary))
