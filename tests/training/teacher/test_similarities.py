from copy import deepcopy

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from sparta.errors import InputError
from training.teacher.similarities import Similarities, Teacher, TermTable

RNG = np.random.default_rng(0)
SENTENCES = RNG.standard_normal((30, 6)).astype(np.float16)
PHOTOS = RNG.standard_normal((20, 1, 6)).astype(np.float16)
EVERY = np.arange(30), np.arange(20)


def reference(sentences: np.ndarray, photos: np.ndarray) -> np.ndarray:
    """Standardised inner products, one at a time."""
    found = np.zeros((len(sentences), len(photos)))
    for i, text in enumerate(sentences.astype(np.float64)):
        for j, views in enumerate(photos.astype(np.float64)):
            found[i, j] = max(text @ view for view in views)
    means = [text @ photos.astype(np.float64).mean(axis=(0, 1)) for text in sentences]
    centred = found - np.array(means)[:, None]
    return centred / np.sqrt((centred**2).mean())


def test_similarities_are_standardised_inner_products() -> None:
    similar = Similarities("a", SENTENCES, PHOTOS)
    expected = reference(SENTENCES, PHOTOS)
    assert np.allclose(similar.between(*EVERY), expected, atol=1e-4)
    assert np.allclose(expected.mean(axis=1), 0)  # of one view, each sentence's mean is 0
    chosen = np.array([7, 2, 7]), np.array([3, 19])
    assert np.allclose(similar.between(*chosen), expected[chosen[0]][:, chosen[1]], atol=1e-4)


def test_the_most_similar_view_counts() -> None:
    photos = RNG.standard_normal((20, 3, 6)).astype(np.float16)
    found = Similarities("a", SENTENCES, photos).between(*EVERY)
    assert np.allclose(found, reference(SENTENCES, photos), atol=1e-4)


def test_counts_of_terms_are_sentences_too() -> None:
    counts = RNG.integers(0, 3, (30, 6)).astype(np.float32)
    scores = np.abs(PHOTOS)
    found = Similarities("a", csr_array(counts), scores).between(*EVERY)
    assert np.allclose(found, reference(counts, scores), atol=1e-4)


def test_a_teacher_is_the_mean_of_models() -> None:
    one, two = Similarities("a", SENTENCES, PHOTOS), Similarities("b", SENTENCES, -(PHOTOS**2), 3)
    teacher = deepcopy(Teacher([one, two]))
    assert teacher.parts[0] is one  # averaging the weights copies no array
    expected = (one.between(*EVERY) + 3 * two.between(*EVERY)) / 4
    assert np.allclose(teacher.between(*EVERY), expected, atol=1e-5)
    some = torch.tensor([4, 5, 4]), torch.tensor([1, 0])
    assert np.allclose(teacher(*some).numpy(), expected[[4, 5, 4]][:, [1, 0]], atol=1e-5)


def test_a_teacher_without_an_opinion_is_refused() -> None:
    with pytest.raises(InputError, match="blind gives every photo the same similarity"):
        Similarities("blind", np.zeros_like(SENTENCES), PHOTOS)


def test_term_scores_are_found_by_term() -> None:
    scores = np.arange(6, dtype=np.float16).reshape(2, 3)
    table = TermTable(scores, np.array([-1, 2, 0, -1, 1]), "abc")
    found, known = table.of(torch.tensor([4, 0, 1]), torch.tensor([1, 0, 1]))
    assert known.tolist() == [True, False, True]
    assert found[:, known].tolist() == [[4, 5], [1, 2], [4, 5]]
