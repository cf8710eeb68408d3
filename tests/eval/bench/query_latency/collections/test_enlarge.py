"""Larger collections: what they keep of the images they are made of."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from eval.bench.query_latency.collections.enlarge import CHUNK, CollectionKind, enlarge
from eval.bench.query_latency.collections.keep_top import keep_top
from indexer.pruning import prune
from tests.eval.bench.query_latency.tiny import source

IMAGES = CHUNK + 7


def images(kind: CollectionKind, top_n: int | None, seed: int = 0) -> Iterator[dict[int, int]]:
    for rows in enlarge(source(), IMAGES, top_n, kind, seed):
        for first, last in zip(rows.starts, rows.starts[1:], strict=False):
            terms, impacts = rows.terms[first:last], rows.impacts[first:last]
            assert (np.diff(terms) > 0).all()
            yield dict(zip(terms.tolist(), impacts.tolist(), strict=True))


@pytest.mark.parametrize("top_n", [1, 4, 29, 30, 100, None])
def test_the_largest_are_those_that_the_index_would_keep(top_n: int | None) -> None:
    impacts = source(200).impacts
    scores, allowed = impacts.astype(np.float32), np.ones(30, np.bool_)
    expected = prune(scores, None, allowed, top_n)
    np.testing.assert_array_equal(keep_top(impacts, top_n), expected)


@pytest.mark.parametrize("top_n", [5, None])
def test_a_copy_has_its_image_s_terms_and_nearly_its_impacts(top_n: int | None) -> None:
    kept = keep_top(source().impacts, top_n)
    parents = {tuple(source().terms[row.nonzero()[0]]): row[row > 0] for row in kept}
    factors, made = [], list(images("copies", top_n))
    assert len(made) == IMAGES
    for image in made:
        parent = parents[tuple(image)].astype(float)
        changed = np.array([*image.values()])
        assert changed.min() >= 1 and changed.max() <= 255
        inside = (parent > 40) & (parent < 150)  # neither rounding nor the top level matters
        factors += (changed / parent)[inside].tolist()
    assert np.mean(factors) == pytest.approx(1, abs=0.01)
    assert np.std(factors) == pytest.approx(0.15, abs=0.01)


def test_a_mixed_image_takes_every_term_from_one_of_two_and_keeps_the_largest() -> None:
    rare = source(2)
    first, second = ({*rare.terms[row.nonzero()[0]].tolist()} for row in rare.impacts[:2])
    (rows,) = enlarge(rare, 500, None, "mixed")
    met = set()
    for start, end in zip(rows.starts, rows.starts[1:], strict=False):
        own = {*rows.terms[start:end].tolist()}
        assert own <= first | second
        if own and own not in (first, second):
            met |= {(first - second) & own != set(), (second - first) & own != set()}
            assert first & second <= own or not (first & second)
    assert met == {True, False}
    assert max(len(image) for image in images("mixed", 4)) == 4


def test_mixed_images_keep_the_document_frequencies() -> None:
    made = list(images("mixed", None))
    found = [sum(term in image for image in made) / IMAGES for term in source().terms.tolist()]
    np.testing.assert_allclose(found, (source().impacts > 0).mean(axis=0), atol=0.05)


@pytest.mark.parametrize("kind", ["copies", "mixed", "drawn"])
def test_a_seed_decides(kind: CollectionKind) -> None:
    assert list(images(kind, 5)) == list(images(kind, 5))
    assert list(images(kind, 5)) != list(images(kind, 5, seed=1))


def test_impacts_of_more_bits_use_them() -> None:
    (rows,) = enlarge(source(bits=12), 500, None, "copies")
    assert rows.impacts.max() == 2**12 - 1
