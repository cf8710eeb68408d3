"""The answers of the tools: short, and without what only an index knows."""

from typing import Any

from server.mcp import answers
from server.schemas import ExplanationAnswer, SimilarAnswer


def term(term: str, word: str, score: int) -> dict[str, Any]:
    box = (1 / 7, 2 / 7, 3 / 7, 1.0)
    found: dict[str, Any] = {"count": 1, "impact": score, "score": score, "region": 0, "sign": ""}
    found["similarity"] = None
    return {"term": term, "word": word, "box": box, "label": None, **found}


PIECES = [term("kay", "kayak", 156), term("##ak", "kayak", 168), term("on", "on", 0)]
IMAGE: dict[str, Any] = {"image_id": "a.jpg", "url": None, "metadata": {}, "score": 324}
FROM = {"backend": "sparta", "index_version": "1"}


def test_pieces_of_a_word_are_one_word() -> None:
    answer = {
        "image_id": "b.jpg",
        "url": None,
        "terms": [{"term": name, "count": 1} for name in ("boat", "##ak")],
        "hits": [{"rank": 1, "view": None, "coverage": None, "explanation": PIECES, **IMAGE}],
        "also": [],
        "query": "",
        "unknown": [],
        "substitutions": [],
        "conditions": [],
        "timings": {"tokenise_ms": 0, "encode_ms": 0, "search_ms": 0, "total_ms": 0},
    }
    similar = answers.similar(SimilarAnswer.model_validate(answer | FROM))
    assert similar.words == ["boat"]
    assert similar.hits[0].words == {"kayak": 324}


def test_boxes_are_as_exact_as_a_picture() -> None:
    answer = {"query": "kayak on", "terms": PIECES, "against": [], "coverage": 0.5, **IMAGE}
    found = answers.explanation(ExplanationAnswer.model_validate(answer | FROM))
    words = [(word.word, word.score) for word in found.words]
    assert words == [("kayak", 156), ("kayak", 168), ("on", 0)]
    assert found.words[0].box == (0.143, 0.286, 0.429, 1)
