"""What answers may show of images that are written meanwhile."""

from __future__ import annotations

import math

import pytest

from eval.bench.query_latency.collections.queries import TermQuery
from eval.bench.soak.judge import Version
from eval.bench.soak.written import SHOWN, LiveJudge, Written
from server.schemas import HitAnswer, SearchAnswer, TimingsAnswer

QUERY = TermQuery(0, "red", "red", {7: 2})
RIGHT = {"red": (("b", 20.0), ("d", 10.0), ("e", 10.0))}
OWN = "soak/0/1"


def answer(*hits: tuple[str, float]) -> SearchAnswer:
    found = [
        HitAnswer(
            rank=rank,
            image_id=name,
            score=score,
            url=None,
            metadata={},
            view=None,
            coverage=None,
            explanation=None,
        )
        for rank, (name, score) in enumerate(hits, start=1)
    ]
    return SearchAnswer(
        query="red",
        backend="sparta",
        index_version="a.1",
        hits=found,
        unknown=[],
        corrections=[],
        substitutions=[],
        conditions=[],
        timings=TimingsAnswer(tokenise_ms=0, encode_ms=0, search_ms=0, total_ms=0),
    )


def problems(judge: LiveJudge, start: float, end: float, *hits: tuple[str, float]) -> list[str]:
    judge.wrong.clear()
    judge.check("red", answer(*hits), start, end)
    return judge.wrong


@pytest.fixture
def judge() -> LiveJudge:
    """Nothing before 1; an impact of 6 from 1, certain from 2; 3 from 5, 9; deleted from 12."""
    judge = LiveJudge([QUERY], RIGHT, 3)
    states = judge.written
    states.sent(OWN, {7: 6}, 1.0)
    states.found(OWN, 2.0)
    states.sent(OWN, {7: 3, 8: 5}, 5.0)
    states.found(OWN, 9.0)
    states.sent(OWN, None, 12.0)
    return judge


def test_states_are_seen_from_their_request_until_the_next_one_is_found() -> None:
    written = Written()
    written.sent("a", {1: 1}, 3.0)
    written.sent("a", {1: 2}, 4.0)
    written.found("a", 5.0)
    seen = [[s.impacts for s in written.visible("a", at, at)] for at in (2.0, 3.0, 4.5, 6.0)]
    assert seen == [[None], [None, {1: 1}], [None, {1: 1}, {1: 2}], [{1: 2}]]
    written.found("a", math.inf)
    assert len(written.states["a"]) == 1


def test_right_answers(judge: LiveJudge) -> None:
    plain = RIGHT["red"]
    assert problems(judge, 0.1, 0.9, *plain) == []
    for hits in (plain, (("b", 20.0), (OWN, 12.0), ("d", 10.0))):
        assert problems(judge, 0.1, 1.5, *hits) == []
    assert problems(judge, 3.0, 4.0, ("b", 20.0), (OWN, 12.0), ("d", 10.0)) == []
    assert problems(judge, 3.0, 6.0, ("b", 20.0), (OWN, 12.0), ("d", 10.0)) == []
    assert problems(judge, 3.0, 6.0, *plain) == []  # of 6, which come after e
    assert problems(judge, 10.0, 11.0, *plain) == []
    assert (judge.wrong_count, judge.misplaced, judge.unserved) == (0, 0, 0)
    assert judge.written_hits == 3
    judge.register("a", Version(0, 1.0, 1.0))
    assert judge.versions() == []


def test_wrong_answers(judge: LiveJudge) -> None:
    plain = RIGHT["red"]
    assert "soak/0/1 of [12.0] is missing before (-10.0, 'e')" in problems(judge, 3, 4, *plain)[0]
    early = problems(judge, 0.1, 0.9, ("b", 20.0), (OWN, 12.0), ("d", 10.0))
    assert "soak/0/1 has 12.0 of [0.0]" in early[0]
    late = problems(judge, 10, 11, ("b", 20.0), (OWN, 12.0), ("d", 10.0))
    assert "soak/0/1 has 12.0 of [6.0]" in late[0]
    [order] = problems(judge, 0, 0.5, ("d", 10.0), ("b", 20.0), ("e", 10.0))[:1]
    assert "hits are not in order" in order
    assert "d of 10.0 is missing before" in problems(judge, 0, 0.5, ("b", 20.0))[0]
    assert "are not" in problems(judge, 0, 0.5, ("b", 20.0), ("e", 10.0))[0]
    for _ in range(2 * SHOWN):
        judge.check("red", answer(), 0, 0.5)
    assert len(judge.wrong) == SHOWN < judge.wrong_count


def test_what_is_left(judge: LiveJudge) -> None:
    judge.check_images("at the end", [(OWN, None), (OWN, {7: 3, 8: 5})], math.inf, math.inf)
    assert judge.wrong_count == 0
    judge.check_images("at the end", [(OWN, {7: 6})], math.inf, math.inf)
    assert judge.wrong == ["at the end, soak/0/1 has {7: 6} of [{7: 3, 8: 5}, None]"]
