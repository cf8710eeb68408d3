"""The sentences a teacher compares with photos: from a text file, and captions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from sparta.errors import InputError


class SentencePool(NamedTuple):
    """Distinct sentences.

    Attributes:
        texts: S sentences.
        captions: for each of N photos the numbers of its captions among them.
    """

    texts: list[str]
    captions: list[list[int]]


def read_sentences(path: Path) -> list[str]:
    """Read the lines of a text file; blank ones are left out.

    Raises:
        InputError: if it cannot be read, is not UTF-8, or has no sentence.
    """
    try:
        lines = path.read_bytes().decode("utf-8-sig").splitlines()
    except OSError as error:
        raise InputError(
            f"teacher.sentences: {path} cannot be read ({error.strerror}): give a text file, one "
            "sentence a line"
        ) from error
    except UnicodeDecodeError as error:
        raise InputError(
            f"teacher.sentences: {path} is not UTF-8 text ({error.reason} at byte {error.start}): "
            "convert it"
        ) from error
    sentences = [line.strip() for line in lines if line.strip()]
    if not sentences:
        raise InputError(f"teacher.sentences: {path} is empty: give one sentence a line")
    return sentences


def pool_sentences(captions: Sequence[Sequence[str]], sentences: Sequence[str]) -> SentencePool:
    """Number the distinct sentences, captions first.

    Args:
        captions: of each of N photos, possibly none.
        sentences: that belong to no photo.
    """
    numbers: dict[str, int] = {}
    own = [[numbers.setdefault(text, len(numbers)) for text in texts] for texts in captions]
    for text in sentences:
        numbers.setdefault(text, len(numbers))
    return SentencePool(list(numbers), own)
