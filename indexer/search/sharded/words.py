"""The words that an index in shards holds."""

from __future__ import annotations

from threading import Lock

import numpy as np
from numpy.typing import NDArray

from indexer.live.commit import Commit
from indexer.search.sharded.asking import Asking
from indexer.search.sharded.tasks import Frequencies
from indexer.search.terms.words import HeldWords, WordList


class ShardsWords:
    """The words of all shards, counted again when a shard has another commit.

    Args:
        asking: the shards.
        words: of their vocabulary.
    """

    def __init__(self, asking: Asking, words: WordList) -> None:
        self._asking, self._words = asking, words
        self._counted: dict[int, tuple[Commit, NDArray[np.int64]]] = {}
        self._held: HeldWords | None = None
        self._lock = Lock()

    def held(self) -> HeldWords:
        """The words that images of any shard have now."""
        with self._lock:
            asked = {
                number: Frequencies(self._counted[number][0] if number in self._counted else None)
                for number in range(len(self._asking.shards))
            }
            newer = {
                number: (found.commit, found.result)
                for number, found in self._asking.shards.ask(asked).items()
                if found.result is not None
            }
            if newer or self._held is None:
                if self._counted:
                    self._asking.forget_held()
                self._counted |= newer
                counts = np.sum([own for _, own in self._counted.values()], axis=0)
                self._held = HeldWords(self._words, counts, self._asking.holds)
            return self._held
