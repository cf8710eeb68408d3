"""Right and wrong answers are told apart."""

from typing import Any

from eval.bench.soak.editions import Editions
from eval.bench.soak.judge import SHOWN, Judge
from server.schemas import SearchAnswer

EDITIONS = Editions(["red"], [{"red": (("a", 3.0), ("b", 1.0))}, {"red": (("b", 2.0),)}])


def answer(*hits: tuple[str, float], explained: float | None = None) -> SearchAnswer:
    term = {"term": "red", "word": "red", "count": 1, "impact": 1, "score": explained}
    term |= dict.fromkeys(("region", "box", "label", "similarity"))
    explanation = None if explained is None else [term]
    values: dict[str, Any] = {
        "query": "red",
        "backend": "sparta",
        "hits": [
            {"rank": 1, "image_id": image_id, "score": score, "explanation": explanation}
            | {"url": None, "metadata": {}, "view": None}
            for image_id, score in hits
        ],
        "unknown": [],
        "substitutions": [],
        "timings": dict.fromkeys(("tokenise_ms", "encode_ms", "search_ms", "total_ms"), 0),
    }
    return SearchAnswer.model_validate(values)


def test_answers_of_any_edition_are_right() -> None:
    judge = Judge(EDITIONS)
    judge.check("red", answer(("a", 3.0), ("b", 1.0)))
    judge.check("red", answer(("b", 2.0), explained=2.0))
    assert judge.wrong_count == 0


def test_others_are_wrong() -> None:
    judge = Judge(EDITIONS)
    judge.check("red", answer(("b", 1.0), ("a", 3.0)))
    judge.check("red", answer(("b", 2.0), explained=1.0))
    assert judge.wrong == [
        "'red': (('b', 1.0), ('a', 3.0))… is the answer of no edition",
        "'red': b is explained with another score",
    ]
    for _ in range(SHOWN):
        judge.check("red", answer())
    assert (judge.wrong_count, len(judge.wrong)) == (SHOWN + 2, SHOWN)
