"""All words that captions of scenes can contain."""

from __future__ import annotations

import re
from collections.abc import Iterator

from training.scenes import lexicon

GLUE = "a an one the and is are in which wearing dressed"
"""Words that the grammar adds between slots."""
_SLOT = re.compile(r"\{(\w+)\}")
_WORD = re.compile(r"[a-z0-9]+")


def lexicon_words() -> set[str]:
    """Words of all texts in the lexicon, in lower case, split at punctuation."""
    return {word for text in _texts() for word in _WORD.findall(text.lower())}


def _texts() -> Iterator[str]:
    """Every text of the lexicon."""
    yield GLUE
    for patterns in (
        lexicon.SINGLE, lexicon.ACTING, lexicon.RELATING, lexicon.PLACING, lexicon.SETTING,
        lexicon.PAIRING, lexicon.LISTING, lexicon.SHORT,
    ):  # fmt: skip
        yield from (_SLOT.sub(" ", pattern) for pattern in patterns)
    for table in (
        lexicon.COLOURS, lexicon.SIZES, lexicon.COUNTS, lexicon.RELATIONS, lexicon.POSITIONS,
        lexicon.ACTIONS, lexicon.PLACES, lexicon.VIEWS, lexicon.LIGHTS, lexicon.WEATHERS,
    ):  # fmt: skip
        yield from (text for texts in table.values() for text in texts)
    for nouns in (*lexicon.NOUNS.values(), *lexicon.CLOTHES.values()):
        yield from (text for pair in nouns for text in pair)
