"""The table of spelling of a model: the words of several word pieces that its captions have."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable
from pathlib import Path

from sparta.tokenizer import TermTokenizer
from sparta.word_tables import SPELLING

LEAST, FREQUENT = 3, 10  # captions with a correct word, and with one that corrections may be
MISSPELT = 300  # times as frequent as a word that nobody lists is the word that it is taken for
LONG = 8  # letters; only longer words are corrected by two edits
_WORD = re.compile(r"[^\W\d_]+")


def write_spelling(
    texts: Iterable[str],
    tokenizer: TermTokenizer,
    folder: Path,
    listed: Collection[str] = frozenset(),
) -> None:
    """Write `folder/spelling.json`.

    Args:
        texts: captions and sentences of the training.
        tokenizer: of the model. Its words of one piece are correct, and not in the table.
        folder: of the model.
        listed: further correct words, as the tokenizer normalises them. Those that no correction
            could replace are left out.
    """
    typed = Counter(word for text in texts for word in {*_WORD.findall(tokenizer.fold(text))})
    counts, pieces = Counter[str](), dict[str, int]()
    for word, count in typed.items():
        own = tokenizer.encode_query(word).pieces
        whole = tokenizer.written(word, own) if own else ""
        counts[whole] += count
        pieces[whole] = len(own)
    # Possessives, which many type without the apostrophe.
    listed = {*listed, *(f"{word}s" for word, count in counts.items() if count >= MISSPELT)}
    most = Counter[str]()
    for word, count in counts.items():
        most |= Counter(dict.fromkeys(_shortened(word, 1), count)) if count >= MISSPELT else {}
    correct = [
        word
        for word, count in counts.most_common()
        if (pieces[word] > 1 or word not in tokenizer.ids) and count >= LEAST and word.isalpha()
        and (word in listed or all(most[one] < MISSPELT * count for one in _shortened(word, 1)))
    ]  # fmt: skip
    frequent = [word for word in correct if counts[word] >= FREQUENT]
    targets = [*frequent, *(word for word, own in pieces.items() if own == 1)]
    near = {one for word in targets for one in _shortened(word, 2)}
    others = {word for word in {*correct, *listed} - {*frequent} if word not in tokenizer.ids}
    edits = {word: 1 + (len(word) >= LONG) for word in others}
    kept = [word for word in others if not near.isdisjoint(_shortened(word, edits[word]))]
    table = {"frequent": frequent, "other": sorted(kept)}
    (folder / SPELLING).write_text(json.dumps(table, ensure_ascii=False), encoding="utf-8")


def _shortened(word: str, letters: int) -> set[str]:
    """A word, and what is left of it without some letters, at most so many."""
    found = {word}
    for _ in range(letters):
        found |= {one[:place] + one[place + 1 :] for one in found for place in range(len(one))}
    return found
