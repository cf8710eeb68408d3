"""Noun phrases of captions."""

from __future__ import annotations

import random

from training.scenes import lexicon
from training.scenes.facts import Mention


def noun_phrase(who: Mention, rng: random.Random, article: bool = True) -> str:
    """A noun phrase for a mention, such as "two small brown dogs" or "a lady in a red dress"."""
    plural = who.count > 1
    noun = rng.choice(lexicon.NOUNS[who.noun])[plural]
    adjectives = [rng.choice(lexicon.SIZES[who.size])] if who.size else []
    tail = ""
    if who.colour:
        colour = rng.choice(lexicon.COLOURS[who.colour])
        if who.noun in lexicon.CLOTHES:
            tail = _clothes(who, colour, rng)
        elif not plural and article and rng.random() < 0.06:
            tail = f" which is {colour}"
        else:
            adjectives.append(colour)
    words = " ".join([*adjectives, noun])
    if plural:
        return f"{rng.choice(lexicon.COUNTS[who.count])} {words}{tail}"
    return (_with_article(words, rng) if article else words) + tail


def _clothes(who: Mention, colour: str, rng: random.Random) -> str:
    one, many = rng.choice(lexicon.CLOTHES[who.noun])
    worn = f"{colour} {many}" if who.count > 1 else _with_article(f"{colour} {one}")
    return f" {rng.choice(('in', 'in', 'wearing', 'dressed in'))} {worn}"


def _with_article(words: str, rng: random.Random | None = None) -> str:
    if words.endswith((" sun", " moon")) or words in ("sun", "moon"):
        return f"the {words}"
    if rng is not None and rng.random() < 0.04:
        return f"one {words}"
    return f"{'an' if words[0] in 'aeiou' else 'a'} {words}"
