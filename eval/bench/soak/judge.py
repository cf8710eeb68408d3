"""Whether the answers of a server whose index changes are right."""

from __future__ import annotations

from eval.bench.soak.editions import Editions
from server.schemas import SearchAnswer

SHOWN = 10  # wrong answers that are described


class Judge:
    """Compares answers with those of the editions.

    Attributes:
        wrong: descriptions of the first wrong answers.
        wrong_count: how many there were.
    """

    def __init__(self, editions: Editions) -> None:
        self._editions = editions
        self.wrong: list[str] = []
        self.wrong_count = 0

    def check(self, query: str, answer: SearchAnswer) -> None:
        """Compare an answer, its explanations included, with those that are right.

        Args:
            query: that was sent.
            answer: to it.
        """
        ranking = tuple((hit.image_id, hit.score) for hit in answer.hits)
        if not self._editions.fitting(query, ranking):
            self._note(f"{query!r}: {ranking[:3]}… is the answer of no edition")
        for hit in answer.hits:
            if hit.explanation is not None and sum(t.score for t in hit.explanation) != hit.score:
                self._note(f"{query!r}: {hit.image_id} is explained with another score")

    def _note(self, text: str) -> None:
        self.wrong_count += 1
        if len(self.wrong) < SHOWN:
            self.wrong.append(text)
