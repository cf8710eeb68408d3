"""The right answers against loops, and what passes as one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from eval.bench.query_latency.collections.dense_vectors import enlarge_vectors
from eval.bench.query_latency.engines.base import Answer, Promise
from eval.bench.query_latency.ground_truth import GroundTruth, WrongAnswer
from tests.eval.bench.query_latency.tiny import corpus, dense, queries, source

SCORES = np.array([[1, 3, 5, 0, 9, 5, 2, 5]], np.int32)


def test_scores_of_impacts(tmp_path: Path) -> None:
    made, asked = source(), queries(source())
    places = {term: place for place, term in enumerate(made.terms.tolist())}
    truth = GroundTruth.of_impacts(corpus(tmp_path, made), asked)
    for row, query in enumerate(asked):
        for image, impacts in enumerate(made.impacts.tolist()):
            expected = sum(
                count * impacts[places[term]]
                for term, count in query.terms.items()
                if term in places
            )
            assert truth.scores[row, image] == expected


def test_scores_of_vectors_are_those_of_the_best_view(tmp_path: Path) -> None:
    vectors = enlarge_vectors(dense("v", 5, views=3), 50, "copies", tmp_path / "v.npy")
    truth = GroundTruth.of_vectors(vectors, queries(source(), 5))
    for row in range(5):
        expected = [
            max(float(view @ vectors.queries[row]) for view in image) for image in vectors.open()
        ]
        np.testing.assert_allclose(truth.scores[row], expected, atol=1e-6)


def test_ties_go_by_number_and_images_without_a_term_are_no_answer() -> None:
    found = GroundTruth(SCORES).top(0, 100)
    assert found.documents.tolist() == [4, 2, 5, 7, 1, 6, 0]
    assert found.scores.tolist() == [9, 5, 5, 5, 3, 2, 1]
    assert GroundTruth(SCORES.astype(np.float32)).top(0, 100).documents.tolist()[-1] == 3


RIGHT = Answer(np.array([4, 2, 5]), np.array([9, 5, 5]))


@pytest.mark.parametrize(
    ("answer", "promises"),
    [
        (RIGHT, {Promise.ORDER, Promise.SCORES, Promise.ROUNDED}),
        (RIGHT._replace(documents=np.array([4, 7, 2])), {Promise.SCORES, Promise.ROUNDED}),
        (RIGHT._replace(scores=np.array([9, 5 + 1e-5, 5])), {Promise.ROUNDED}),
        (RIGHT._replace(scores=np.array([9, 5, 4])), set()),
        (RIGHT._replace(documents=np.array([4, 2, 1])), set()),
        (RIGHT._replace(documents=np.array([4, 2, 2])), set()),
        (Answer(RIGHT.documents[:2], RIGHT.scores[:2]), set()),
        (Answer(np.array([], int), np.array([])), set()),
    ],
)
def test_what_a_promise_holds(answer: Answer, promises: set[Promise]) -> None:
    for promise in Promise:
        if promise in promises | {Promise.NEAR}:
            GroundTruth(SCORES).check("engine", promise, [answer], 3)
        else:
            with pytest.raises(WrongAnswer, match="engine finds"):
                GroundTruth(SCORES).check("engine", promise, [answer], 3)


@pytest.mark.parametrize(
    ("documents", "overlap"),
    [([4, 2, 5], 1), ([7, 4, 5], 1), ([7, 5, 2], 1), ([1, 0, 4], 1 / 3), ([4, 4, 4], 1 / 3)],
)
def test_overlap_takes_any_of_equals_and_counts_an_image_once(
    documents: list[int], overlap: float
) -> None:
    answer = Answer(np.array(documents), np.zeros(3))
    found = GroundTruth(SCORES).check("engine", Promise.NEAR, [answer], 3)
    assert found == pytest.approx(overlap)
