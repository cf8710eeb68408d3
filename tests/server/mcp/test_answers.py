"""The answers of the tools: short, and without what only an index knows."""

from server.mcp import answers
from server.schemas import ExplanationAnswer, HitAnswer, QueryTerm, SimilarAnswer, TermAnswer
from server.schemas import TimingsAnswer as Timings


def term(term: str, word: str, score: int) -> TermAnswer:
    box = (1 / 7, 2 / 7, 3 / 7, 1.0)
    found = {"count": 1, "impact": score, "score": score, "region": 0, "similarity": None}
    return TermAnswer(term=term, word=word, box=box, label=None, **found)


PIECES = [term("kay", "kayak", 156), term("##ak", "kayak", 168), term("on", "on", 0)]


def test_pieces_of_a_word_are_one_word() -> None:
    found = {
        "rank": 1,
        "image_id": "a.jpg",
        "score": 324,
        "url": None,
        "metadata": {},
        "view": None,
    }
    answer = SimilarAnswer(
        image_id="b.jpg",
        url=None,
        backend="sparta",
        terms=[QueryTerm(term=name, count=1) for name in ("boat", "##ak")],
        hits=[HitAnswer(**found, metadata={}, explanation=PIECES)],
        timings=Timings(tokenise_ms=0, encode_ms=0, search_ms=0, total_ms=0),
    )
    similar = answers.similar(answer)
    assert similar.words == ["boat"]
    assert similar.hits[0].words == {"kayak": 324}


def test_boxes_are_as_exact_as_a_picture() -> None:
    answer = ExplanationAnswer(
        query="kayak on",
        backend="sparta",
        image_id="a.jpg",
        url=None,
        metadata={},
        score=324,
        terms=PIECES,
    )
    found = answers.explanation(answer)
    assert [(word.word, word.score) for word in found.words] == [
        ("kayak", 156),
        ("kayak", 168),
        ("on", 0),
    ]
    assert found.words[0].box == (0.143, 0.286, 0.429, 1)
