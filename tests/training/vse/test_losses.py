"""Triplet and multi-view losses against slow ones."""

import math
from typing import Any

import pytest
import torch

from tests.training.vse.batches import (
    PHOTOS,
    Nested,
    different,
    gradient,
    similarities,
)
from training.vse.multi_view import MultiViewVariant, multi_view_softmax, multi_view_triplet
from training.vse.triplet import triplet

# With and without a second caption of a photo, and without any negative.
BATCHES = [PHOTOS, list(range(7)), [0] * 7]


def slow_plain(values: Nested, photos: list[int], margin: float, hardest: bool) -> float:
    """GPO equation 1, one pair after the other."""
    total = 0.0
    for i, photo in enumerate(photos):
        others = [j for j, other in enumerate(photos) if other != photo]
        for negatives in ([values[i][j] for j in others], [values[j][i] for j in others]):
            costs = [max(0.0, margin - values[i][i] + negative) for negative in negatives]
            total += max(costs, default=0.0) if hardest else sum(costs)
    return total


@pytest.mark.parametrize("photos", BATCHES)
@pytest.mark.parametrize("margin", [0.0, 0.2])
@pytest.mark.parametrize("hardest", [True, False])
def test_equation_1(photos: list[int], margin: float, hardest: bool) -> None:
    values = similarities(0, 7, 7)
    found = triplet(values, different(photos), margin, hardest)
    assert found.item() == pytest.approx(slow_plain(values.tolist(), photos, margin, hardest))
    assert gradient(values, found).isfinite().all()


KINDS = ["average", "max", "rough", "upper", "joint", "code"]


def directions(values: Nested, photos: list[int]) -> list[tuple[list[float], Nested]]:
    """Per text and per image: its positive in each view, its negatives in each view."""
    found = []
    for i, photo in enumerate(photos):
        others = [j for j, other in enumerate(photos) if other != photo]
        found.append((values[i][i], [values[i][j] for j in others]))
        found.append((values[i][i], [values[j][i] for j in others]))
    return found


def slow_triplet(
    values: Nested, photos: list[int], margin: float, kind: str, weight: float, hardest: bool
) -> float:
    """MV-VSE equations 8-15, one text or image after the other."""
    if kind == "joint":
        parts = [slow_triplet(values, photos, margin, k, weight, hardest) for k in ("max", "upper")]
        return weight * parts[0] + (1 - weight) * parts[1]
    views = len(values[0][0])
    chosen = max if hardest else sum
    total = 0.0
    for positive, negatives in directions(values, photos):
        best = max(positive)
        if not negatives:
            continue
        if kind == "max":
            total += chosen([max(0, margin - best + max(each)) for each in negatives])
        for k in range(views):
            own = [max(0, margin - positive[k] + each[k]) for each in negatives]
            up = [max(0, margin - positive[k] + max(each)) for each in negatives]
            low = [max(0, margin - best + each[k]) for each in negatives]
            indicators = [
                all(margin - positive[v] + max(each) > 0 for v in range(views))
                for each in negatives
            ]
            if kind == "average":
                total += chosen(own) / views
            elif kind == "rough":
                total += chosen(up) / views
            elif kind == "upper" and hardest:
                hard = max(range(len(negatives)), key=lambda j: max(negatives[j]))
                total += up[hard] * indicators[hard] / views
            elif kind == "upper":
                total += sum(cost * i for cost, i in zip(up, indicators, strict=True)) / views
            elif kind == "code":
                mean = weight * chosen(up) + (1 - weight) * chosen(low)
                total += mean / views / len(photos) / 2
    return total


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("hardest", [True, False])
@pytest.mark.parametrize("views", [1, 3])
@pytest.mark.parametrize("photos", BATCHES)
@pytest.mark.parametrize("margin", [0.2, 0.5])
def test_equations_8_to_15(
    kind: MultiViewVariant, hardest: bool, photos: list[int], views: int, margin: float
) -> None:
    values = similarities(0, 7, 7, views)
    found = multi_view_triplet(values, different(photos), margin, kind, 0.6, hardest)
    expected = slow_triplet(values.tolist(), photos, margin, kind, 0.6, hardest)
    assert found.item() == pytest.approx(expected)
    assert gradient(values, found).isfinite().all()


def share_lost(positive: float, negatives: list[float], temperature: float) -> float:
    """The softmax loss of one view: -log of the positive's share."""
    powers = [math.exp(each / temperature) for each in [positive, *negatives]]
    return -math.log(powers[0] / sum(powers))


def slow_softmax(
    values: Nested, photos: list[int], temperature: float, kind: str, weight: float
) -> float:
    """The softmax loss in each reading, one text or image after the other."""
    total = 0.0
    for positive, negatives in directions(values, photos):
        best, hard = max(positive), [max(each) for each in negatives]
        views = range(len(positive))
        of_best = share_lost(best, hard, temperature)
        rough = [share_lost(positive[k], hard, temperature) for k in views]
        own = [share_lost(positive[k], [each[k] for each in negatives], temperature) for k in views]
        picked = all(best > each for each in hard)
        upper = of_best if picked else sum(rough) / len(rough)
        wide = [each + 0.2 for each in hard]
        up = [share_lost(positive[k], wide, temperature) for k in views]
        low = [share_lost(best, [e[k] + 0.2 for e in negatives], temperature) for k in views]
        total += {
            "average": sum(own) / len(own),
            "max": of_best,
            "rough": sum(rough) / len(rough),
            "upper": upper,
            "joint": weight * of_best + (1 - weight) * upper,
            "code": (weight * sum(up) + (1 - weight) * sum(low)) / len(up) * temperature / 2,
        }[kind]
    return total / len(photos)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("views", [1, 3])
@pytest.mark.parametrize("photos", BATCHES)
@pytest.mark.parametrize("temperature", [0.05, 0.5])
def test_softmax(kind: MultiViewVariant, photos: list[int], views: int, temperature: float) -> None:
    values = similarities(1, 7, 7, views)
    found = multi_view_softmax(values, different(photos), temperature, kind, 0.6)
    expected = slow_softmax(values.tolist(), photos, temperature, kind, 0.6)
    assert found.item() == pytest.approx(expected)
    assert gradient(values, found).isfinite().all()


@pytest.mark.parametrize("loss", [multi_view_triplet, multi_view_softmax])
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("size", [0.05, 0.5])
def test_equation_14(loss: Any, seed: int, size: float) -> None:
    """For any margin or temperature."""
    values, apart = similarities(seed, 7, 7, 3), different(PHOTOS)
    lowest, middle, highest = (
        loss(values, apart, size, kind) for kind in ("max", "upper", "rough")
    )
    assert lowest <= middle + 1e-9 and middle <= highest + 1e-9


def test_ties_are_not_found() -> None:
    values = torch.full((2, 2, 2), 0.5, dtype=torch.float64)
    values[:, :, 1] = 0.1
    losses = [multi_view_softmax(values, different([0, 1]), 0.1, k) for k in ("upper", "rough")]
    assert losses[0] == losses[1]


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_waits_for_the_device(kind: MultiViewVariant) -> None:
    """Tensors without values fail as soon as a value is read."""
    values = torch.empty(5, 5, 3, device="meta", requires_grad=True)
    apart = torch.empty(5, 5, dtype=torch.bool, device="meta")
    losses = (
        multi_view_triplet(values, apart, kind=kind),
        multi_view_softmax(values, apart, kind=kind),
    )
    torch.stack(losses).sum().backward()
    assert values.grad is not None


@pytest.mark.parametrize("loss", [multi_view_triplet, multi_view_softmax])
def test_an_unknown_kind_is_an_error(loss: Any) -> None:
    with pytest.raises(ValueError, match=r"kind is 'mean', not one of average, max, rough"):
        loss(similarities(0, 2, 2, 2), different([0, 1]), kind="mean")
