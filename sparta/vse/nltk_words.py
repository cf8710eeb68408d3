"""Words as NLTK splits English texts, on which the published vocabularies of dense models rest."""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from typing import Any

from sparta.extras import require


def nltk_words(text: str) -> list[tuple[str, str]]:
    """Split a lower-cased text as NLTK's `word_tokenize` does, and VSE++'s code and its successors.

    Returns:
        Each word, and how the text spells it: NLTK writes double quotes as `` and ''.

    Raises:
        InputError: if NLTK or its sentence models are not installed.
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
