import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.training.vse.batches import (
    PHOTOS,
    Nested,
    batches,
    different,
    gradient,
    shuffled,
    similarities,
)
from training.vse.triplet import triplet


def slow_triplet(values: Nested, photos: list[int], margin: float, hardest: bool) -> float:
    """GPO equation 1, one pair after the other."""
    total = 0.0
    for i, photo in enumerate(photos):
        others = [j for j, other in enumerate(photos) if other != photo]
        for negatives in ([values[i][j] for j in others], [values[j][i] for j in others]):
            costs = [max(0.0, margin - values[i][i] + negative) for negative in negatives]
            total += max(costs) if hardest else sum(costs)
    return total


@pytest.mark.parametrize("photos", [PHOTOS, list(range(7))])
@pytest.mark.parametrize("margin", [0.0, 0.2])
@pytest.mark.parametrize("hardest", [True, False])
def test_equation_1(photos: list[int], margin: float, hardest: bool) -> None:
    values = similarities(0, 7, 7)
    found = triplet(values, different(photos), margin, hardest)
    assert found.item() == pytest.approx(slow_triplet(values.tolist(), photos, margin, hardest))


def test_by_hand() -> None:
    values = torch.tensor([[0.9, 0.8], [0.1, 0.5]])
    apart = different([0, 1])
    # Text 0 over image 1: 0.2 - 0.9 + 0.8; image 1 over text 0: 0.2 - 0.5 + 0.8; the others hold.
    assert triplet(values, apart).item() == pytest.approx(0.1 + 0.5)


def test_the_hardest_negative_of_each_side_alone_is_trained() -> None:
    values = similarities(1, 7, 7)
    slopes = gradient(values, triplet(values, different(PHOTOS), margin=2.0))
    for i, photo in enumerate(PHOTOS):
        others = [j for j, other in enumerate(PHOTOS) if other != photo]
        image = max(others, key=lambda j: values[i, j].item())
        text = max(others, key=lambda j: values[j, i].item())
        assert slopes[i, i] == -2  # both directions, each with one violation
        assert slopes[i, image] >= 1
        assert slopes[text, i] >= 1
    assert slopes.clamp(min=0).sum() == 2 * len(PHOTOS)


@pytest.mark.parametrize("hardest", [True, False])
def test_another_caption_of_the_photo_is_no_negative(hardest: bool) -> None:
    values = similarities(2, 7, 7)
    slopes = gradient(values, triplet(values, different(PHOTOS), 2.0, hardest))
    assert slopes[0, 2] == slopes[2, 0] == slopes[1, 5] == slopes[5, 1] == 0
    assert (slopes.diagonal() < 0).all()


@pytest.mark.parametrize("hardest", [True, False])
def test_without_negatives_it_is_0(hardest: bool) -> None:
    values = similarities(3, 2, 2)
    loss = triplet(values, different([4, 4]), hardest=hardest)
    assert loss.item() == 0
    assert gradient(values, loss).tolist() == [[0, 0], [0, 0]]


@given(batch=batches(views=False), seed=st.integers(0, 10**6), hardest=st.booleans())
def test_the_order_of_the_batch_does_not_matter(
    batch: tuple[torch.Tensor, torch.Tensor], seed: int, hardest: bool
) -> None:
    loss = triplet(*batch, hardest=hardest)
    assert gradient(batch[0], loss).isfinite().all()
    again = triplet(*shuffled(*batch, seed), hardest=hardest)
    torch.testing.assert_close(again, loss)
