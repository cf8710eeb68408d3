"""What a search counts of a text: its words.

Punctuation and symbols become spaces, compatibility forms such as full-width letters are folded
(NFKC), and what people put before a query, "show me photos of", is left out, unless nothing else
would be left. Search, evaluation, benchmarks and exports read texts so; captions are trained on
whole, and networks that read texts get them as typed.
"""

from __future__ import annotations

import re
import unicodedata

REMEMBERED = 0x3000  # characters: those of alphabets, not ideographs


class _Spaced(dict[int, str]):
    """What takes the place of a character: a space of punctuation and symbols."""

    def __missing__(self, code: int) -> str:
        found = " " if unicodedata.category(chr(code))[0] in "PS" else chr(code)
        if code < REMEMBERED:
            self[code] = found
        return found


_SPACED = _Spaced()
# What folding would make letters or accents of, and letters that serve as apostrophes.
_NO_LETTERS = re.compile("[\xb4\u2120\u2122\u02b9-\u02bc]")
# What people put before a query. Captions that begin so lose 1 to 3 points of R@1.
_PICTURES = (
    "(?:(?:an?|the|some|any|all|every|each|more|my|our|of|these|those) )*"
    "(?:photo|photograph|picture|pic|image|snap|snapshot|foto)s? (?:of|showing|with|containing"
    "|depicting|featuring|including|where|(?:i|we) took of|(?:that|which) (?:show|contain|have)s?)"
)
_ASKED = (
    "please|pls|(?:can|could|would|will|may) (?:you|(?:i|we) (?:see|have|get))|let (?:me|us|s) see"
    "|i (?:want|need|d like|would like)(?: to see)?|(?:i ?m|i am|we are) (?:looking|searching) for"
    "|(?:show|give|find|get|fetch|bring) (?:me|us)|find|(?:search|look|looking|searching) for"
    "|(?:show|display|see|view|get|search|list|browse|do you have|(?:are|is) there"
    f"|where (?:is|are))(?= {_PICTURES}(?: |\\Z))"
)
_FRAME = re.compile(rf"(?=[a-ilmopstvw])(?:(?:{_ASKED}|{_PICTURES})(?: |\Z))+")


def searched(text: str) -> str:
    """What a search counts of a plain text; all of it if it has no words."""
    return unframed(words_of(text)) or text


def words_of(text: str) -> str:
    """A text without punctuation and symbols, its compatibility forms folded."""
    if text.isascii() and text.replace(" ", "").isalnum():  # as most are
        return text
    folded = unicodedata.normalize("NFKC", _NO_LETTERS.sub(" ", text))
    return " ".join(folded.translate(_SPACED).split())


def unframed(words: str, counted: bool = False) -> str:
    """Words without the frame before them, if others are left or `counted` elsewhere."""
    found = _FRAME.match(words.lower())
    return words[found.end() :] if found and (counted or found.end() < len(words)) else words
