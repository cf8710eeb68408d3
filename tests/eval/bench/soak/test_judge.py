"""Right and wrong answers are told apart."""

from time import perf_counter
from typing import Any

from eval.bench.soak.editions import Editions
from eval.bench.soak.judge import SHOWN, Judge, Version
from server.schemas import SearchAnswer

EDITIONS = Editions(["red"], [{"red": (("a", 3.0), ("b", 1.0))}, {"red": (("b", 2.0),)}])


def answer(
    *hits: tuple[str, float], explained: float | None = None, version: str = "first"
) -> SearchAnswer:
    term = {"term": "red", "word": "red", "count": 1, "impact": 1, "score": explained}
    term |= dict.fromkeys(("region", "box", "label", "similarity")) | {"sign": ""}
    explanation = None if explained is None else [term]
    values: dict[str, Any] = {
        "query": "red",
        "backend": "sparta",
        "index_version": version,
        "hits": [
            {"rank": 1, "image_id": image_id, "score": score, "explanation": explanation}
            | {"url": None, "metadata": {}, "view": None, "coverage": None}
            for image_id, score in hits
        ],
        "unknown": [],
        "substitutions": [],
        "corrections": [],
        "conditions": [],
        "timings": dict.fromkeys(("tokenise_ms", "encode_ms", "search_ms", "total_ms"), 0),
    }
    return SearchAnswer.model_validate(values)


def test_answers_of_the_edition_of_their_version_are_right() -> None:
    judge = Judge(EDITIONS)
    judge.register("first", Version(0, 1.5, perf_counter()))
    judge.check("red", answer(("a", 3.0), ("b", 1.0)), 0.0, perf_counter())
    # Registered later than it is served.
    judge.check("red", answer(("b", 2.0), explained=2.0, version="second"), 0.0, perf_counter())
    judge.register("second", Version(1, 2.25, perf_counter() + 10))
    judge.register("last", Version(0, 2.25, perf_counter()))
    assert (judge.wrong_count, judge.misplaced, judge.unserved) == (0, 0, 0)
    assert judge.versions()[1:] == [
        {
            "version": "second",
            "edition": 1,
            "rebuilt_s": 2.2,
            "served_after_s": -10.0,
            "answers": 1,
        },
        {"version": "last", "edition": 0, "rebuilt_s": 2.2, "served_after_s": None, "answers": 0},
    ]


def test_right_answers_of_another_version() -> None:
    judge = Judge(EDITIONS)
    for name, edition in (("first", 0), ("second", 1), ("third", 0)):
        judge.register(name, Version(edition, 1.0, perf_counter()))
    judge.check("red", answer(("b", 2.0)), 0.0, perf_counter())
    judge.check("red", answer(("b", 2.0), version="unknown"), 0.0, perf_counter())
    assert (judge.wrong_count, judge.misplaced, judge.unserved) == (0, 2, 1)


def test_others_are_wrong() -> None:
    judge = Judge(EDITIONS)
    judge.check("red", answer(("b", 1.0), ("a", 3.0)), 0.0, perf_counter())
    judge.check("red", answer(("b", 2.0), explained=1.0), 0.0, perf_counter())
    assert judge.wrong == [
        "'red': (('b', 1.0), ('a', 3.0))… is the answer of no edition",
        "'red': b is explained with another score",
    ]
    for _ in range(SHOWN):
        judge.check("red", answer(), 0.0, 1.0)
    assert (judge.wrong_count, len(judge.wrong)) == (SHOWN + 2, SHOWN)
