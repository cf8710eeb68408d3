"""Images drawn from a fitted distribution: as alike as those that it was fitted to, none a copy."""

import numpy as np
from numpy.typing import NDArray

from eval.bench.draw import Distribution

TERMS = 40


def images(count: int) -> NDArray[np.uint8]:
    """Impacts of terms that four topics have in common, about half of them 0."""
    rng = np.random.default_rng(0)
    loadings = np.random.default_rng(7).standard_normal((4, TERMS))
    values = rng.standard_normal((count, 4)) @ loadings + rng.standard_normal((count, TERMS))
    return np.clip(np.rint(60 * values), 0, 255).astype(np.uint8)


def test_frequencies_impacts_and_correlations_stay_and_no_image_is_a_copy() -> None:
    given = images(1000)
    made = Distribution.of(given).draw(5000, np.random.default_rng(0))
    assert made.dtype == given.dtype
    np.testing.assert_allclose((made > 0).mean(axis=0), (given > 0).mean(axis=0), atol=0.03)
    for level in (0.6, 0.8, 0.95):
        expected, found = (np.quantile(some, level, axis=0) for some in (given, made))
        np.testing.assert_allclose(found, expected, atol=15)
    expected, found = (np.corrcoef(some.T.astype(float)) for some in (given, made))
    assert np.abs(found - expected).max() < 0.12
    assert np.abs(expected - np.eye(TERMS)).max() > 0.5  # there are some to keep
    rows, drawn = given.astype(float), made[:300].astype(float)
    copies = rows[:300] * np.random.default_rng(1).normal(1, 0.15, (300, TERMS))
    for some in (rows, drawn, copies):
        some /= np.linalg.norm(some, axis=1, keepdims=True)
    nearest, nearest_of_copies = ((some @ rows.T).max(axis=1) for some in (drawn, copies))
    assert nearest.max() < 0.999 and nearest.mean() < nearest_of_copies.mean() - 0.05


def test_few_images_and_terms_that_none_or_all_have() -> None:
    given = np.array([[0, 5, 3], [0, 5, 0], [0, 5, 9]], np.uint8)
    made = Distribution.of(given).draw(20, np.random.default_rng(0))
    assert not made[:, 0].any() and (made[:, 1] == 5).all() and {*made[:, 2].tolist()} <= {0, 3, 9}
