"""The words of captions that say something of a photo."""

from __future__ import annotations

import re

_FUNCTION_WORDS = """
a about above across after against all along also among an and another any are around as at away
back be been before behind being below beside between both but by can do does doing down each for
from front has have having he her hers herself him himself his if in inside into is it its itself
just like many more most near next no not of off on onto or other others out outside over past
several she so some something than that the their them themselves then there these they this those
through to together toward towards under up upon very was were what when where which while who whose
with within without
"""
STOP_WORDS = frozenset(_FUNCTION_WORDS.split())


def content_words(caption: str) -> list[str]:
    """A caption's words of two letters and more, each once, without stop words."""
    return [
        word
        for word in dict.fromkeys(re.findall(r"[^\W\d_]+", caption.lower()))
        if len(word) > 1 and word not in STOP_WORDS
    ]
