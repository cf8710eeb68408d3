import math

import pytest
import torch

from sparta.errors import InputError
from training.visualsparta.lightning_module import (
    flops,
    in_batch_cross_entropy,
    soft_cross_entropy,
    term_score_error,
)

# Photo 8 is shown twice: by columns 1 and 4. Photos 7 and 8 have two captions each.
QUERIES = torch.tensor([7, 8, 9, 8, 7])
COLUMNS = torch.tensor([7, 8, 9, 11, 8])


def scores(seed: int = 0) -> torch.Tensor:
    torch.manual_seed(seed)
    return (4 * torch.randn(5, 5)).requires_grad_()


def slow_objective(values: list[list[float]], with_positive: bool, smoothing: float) -> float:
    """Equation 13 with its sign turned, one query after the other."""
    losses = []
    for row, photo in zip(values, QUERIES.tolist(), strict=True):
        positive = COLUMNS.tolist().index(photo)
        negatives = [j for j, shown in enumerate(COLUMNS.tolist()) if shown != photo]
        below = [*negatives, positive] if with_positive else negatives
        log_sum = math.log(sum(math.exp(row[j]) for j in below))
        share = {j: smoothing / (len(negatives) + 1) for j in [*negatives, positive]}
        share[positive] += 1 - smoothing
        losses.append(sum(weight * (log_sum - row[j]) for j, weight in share.items()))
    return sum(losses) / len(losses)


@pytest.mark.parametrize("with_positive", [True, False])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_equation_13(with_positive: bool, smoothing: float) -> None:
    given = scores()
    found = in_batch_cross_entropy(given, QUERIES, COLUMNS, with_positive, smoothing)
    expected = slow_objective(given.tolist(), with_positive, smoothing)
    assert found.item() == pytest.approx(expected, rel=1e-5)


def test_without_doubles_it_is_cross_entropy() -> None:
    given, photos = scores(), torch.arange(5)
    expected = torch.nn.functional.cross_entropy(given, photos, label_smoothing=0.1)
    found = in_batch_cross_entropy(given, photos, photos, label_smoothing=0.1)
    assert found.item() == pytest.approx(expected.item(), rel=1e-5)


@pytest.mark.parametrize("with_positive", [True, False])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_a_photo_is_never_its_own_captions_negative(with_positive: bool, smoothing: float) -> None:
    given = scores()
    in_batch_cross_entropy(given, QUERIES, COLUMNS, with_positive, smoothing).backward()
    assert given.grad is not None
    assert given.grad.isfinite().all()
    for row, photo in enumerate(QUERIES.tolist()):
        for column, shown in enumerate(COLUMNS.tolist()):
            slope = given.grad[row, column].item()
            if shown != photo:
                assert slope != 0
            elif column == COLUMNS.tolist().index(photo):
                assert slope < 0 or smoothing
            else:
                assert slope == 0  # the second column of photo 8 takes no part


def test_extreme_scores_stay_finite() -> None:
    given = torch.tensor([[500.0, -500.0], [500.0, 0.0]], requires_grad=True)
    loss = in_batch_cross_entropy(given, torch.arange(2), torch.arange(2))
    loss.backward()
    assert loss.item() == pytest.approx(250.0)
    assert given.grad is not None
    assert given.grad.isfinite().all()


def test_a_missing_positive_is_an_error() -> None:
    with pytest.raises(ValueError, match="lacks the photo of one"):
        in_batch_cross_entropy(scores(), QUERIES, COLUMNS + 1)


def test_a_batch_of_one_photo_has_no_negatives() -> None:
    """Without the positive the denominator of equation 13 would be empty: log 0."""
    one = torch.tensor([3, 3])
    given = torch.randn(2, 2)
    with pytest.raises(InputError, match="include_positive: false needs a second photo in every"):
        in_batch_cross_entropy(given, one, one, include_positive=False)
    assert in_batch_cross_entropy(given, one, one).isfinite()


def test_flops_is_the_sum_of_squared_means() -> None:
    torch.manual_seed(1)
    given = torch.rand(3, 7).relu()
    expected = sum((sum(row[t] for row in given.tolist()) / 3) ** 2 for t in range(7))
    assert flops(given).item() == pytest.approx(expected, rel=1e-5)


def slow_soft_cross_entropy(scores: list[list[float]], targets: list[list[float]]) -> float:
    """Mean over rows of -Σ_j p_j log q_j, p and q the softmax of targets and scores."""
    losses = []
    for row, aims in zip(scores, targets, strict=True):
        log_sum = math.log(sum(map(math.exp, row)))
        total = sum(map(math.exp, aims))
        losses.append(
            sum(math.exp(aim) / total * (log_sum - s) for s, aim in zip(row, aims, strict=True))
        )
    return sum(losses) / len(losses)


@pytest.mark.parametrize("image_to_text", [0.0, 0.3, 1.0])
def test_soft_targets_in_both_directions(image_to_text: float) -> None:
    given, targets = scores()[:3], scores(seed=1)[:3]
    means = [sum(row) / len(row) for row in given.tolist()]
    centred = [[s - mean for s in row] for row, mean in zip(given.tolist(), means, strict=True)]
    expected = (1 - image_to_text) * slow_soft_cross_entropy(given.tolist(), targets.tolist())
    turned = [list(column) for column in zip(*centred, strict=True)]
    expected += image_to_text * slow_soft_cross_entropy(turned, targets.T.tolist())
    found = soft_cross_entropy(given, targets, image_to_text)
    assert found.item() == pytest.approx(expected, rel=1e-5)


def test_a_longer_query_is_no_better_for_every_image() -> None:
    given, targets = scores().detach(), scores(seed=1).detach()
    shifted = given + torch.tensor([[5.0], [0], [0], [2], [0]])
    assert soft_cross_entropy(shifted, targets).item() == pytest.approx(
        soft_cross_entropy(given, targets).item(), rel=1e-5
    )


def test_term_scores_count_by_the_queries_that_contain_them() -> None:
    given, targets = torch.tensor([[1.0, 2, 3], [4, 5, 6]]), torch.zeros(2, 3)
    weights = torch.tensor([1.0, 0, 3])
    expected = ((1 + 16) / 2 * 1 + (9 + 36) / 2 * 3) / 4
    assert term_score_error(given, targets, weights).item() == pytest.approx(expected)
    assert term_score_error(given, targets, torch.zeros(3)).item() == 0
