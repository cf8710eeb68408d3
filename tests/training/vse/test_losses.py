"""Triplet and multi-view losses against slow ones."""

import math
from typing import Any

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
from training.vse.multi_view import MultiViewVariant, multi_view_softmax, multi_view_triplet
from training.vse.triplet import triplet


def slow_plain(values: Nested, photos: list[int], margin: float, hardest: bool) -> float:
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
    assert found.item() == pytest.approx(slow_plain(values.tolist(), photos, margin, hardest))


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


KINDS = ["average", "max", "rough", "upper", "joint", "code"]
VIEWS = 3
Batch = tuple[torch.Tensor, torch.Tensor]


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
@pytest.mark.parametrize("photos", [PHOTOS, list(range(7)), [0] * 7])
@pytest.mark.parametrize("margin", [0.2, 0.5])
def test_equations_8_to_15(
    kind: MultiViewVariant, hardest: bool, photos: list[int], margin: float
) -> None:
    values = similarities(0, 7, 7, VIEWS)
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
@pytest.mark.parametrize("photos", [PHOTOS, list(range(7)), [0] * 7])
@pytest.mark.parametrize("temperature", [0.05, 0.5])
def test_softmax(kind: MultiViewVariant, photos: list[int], temperature: float) -> None:
    values = similarities(1, 7, 7, VIEWS)
    found = multi_view_softmax(values, different(photos), temperature, kind, 0.6)
    expected = slow_softmax(values.tolist(), photos, temperature, kind, 0.6)
    assert found.item() == pytest.approx(expected)
    assert gradient(values, found).isfinite().all()


def ordered(losses: list[torch.Tensor]) -> bool:
    lowest, middle, highest = (loss.item() for loss in losses)
    return lowest <= middle + 1e-9 and middle <= highest + 1e-9


@given(batch=batches(views=True), margin=st.floats(0, 1), hardest=st.booleans())
def test_equation_14(batch: Batch, margin: float, hardest: bool) -> None:
    bounds: tuple[MultiViewVariant, ...] = ("max", "upper", "rough")
    assert ordered([multi_view_triplet(*batch, margin, kind, hardest=hardest) for kind in bounds])


@given(batch=batches(views=True), temperature=st.floats(0.02, 1))
def test_equation_14_of_the_softmax(batch: Batch, temperature: float) -> None:
    bounds: tuple[MultiViewVariant, ...] = ("max", "upper", "rough")
    assert ordered([multi_view_softmax(*batch, temperature, kind) for kind in bounds])


@given(batch=batches(views=False), hardest=st.booleans())
def test_one_view_is_the_plain_triplet_loss(batch: Batch, hardest: bool) -> None:
    values, apart = batch
    plain = triplet(values, apart, 0.2, hardest)
    for kind in ("average", "max", "rough", "upper", "joint"):
        found = multi_view_triplet(values[:, :, None], apart, 0.2, kind, hardest=hardest)
        torch.testing.assert_close(found, plain)
    coded = multi_view_triplet(values[:, :, None], apart, 0.2, "code", hardest=hardest)
    torch.testing.assert_close(coded * 2 * len(apart), plain)


@given(seed=st.integers(0, 10**6), size=st.integers(1, 6))
def test_one_view_is_the_plain_softmax(seed: int, size: int) -> None:
    values, labels = similarities(seed, size, size), torch.arange(size)
    apart = different(list(range(size)))
    texts = torch.nn.functional.cross_entropy(values / 0.1, labels)
    images = torch.nn.functional.cross_entropy(values.T / 0.1, labels)
    for kind in ("average", "max", "rough", "upper", "joint"):
        found = multi_view_softmax(values[:, :, None], apart, 0.1, kind)
        torch.testing.assert_close(found, texts + images)


@given(
    batch=batches(views=True),
    seed=st.integers(0, 10**6),
    kind=st.sampled_from(KINDS),
    hardest=st.booleans(),
)
def test_neither_order_matters(
    batch: Batch, seed: int, kind: MultiViewVariant, hardest: bool
) -> None:
    """Neither the pairs' nor the views'."""
    values, apart = shuffled(*batch, seed)
    others = values.flip(2), apart
    for loss in (
        multi_view_triplet(*batch, kind=kind, hardest=hardest),
        multi_view_softmax(*batch, kind=kind),
    ):
        assert gradient(batch[0], loss).isfinite().all()
    found = multi_view_triplet(*others, kind=kind, hardest=hardest)
    torch.testing.assert_close(found, multi_view_triplet(*batch, kind=kind, hardest=hardest))
    found = multi_view_softmax(*others, kind=kind)
    torch.testing.assert_close(found, multi_view_softmax(*batch, kind=kind))


# Two pairs, two views. Text 0 finds its image in view 0 alone, text 1 in neither view.
FOUND, NOT_FOUND = 0, 1
TWO = [[[0.9, 0.1], [0.0, 0.0]], [[0.8, 0.0], [0.3, 0.2]]]


def trained(kind: MultiViewVariant, softmax: bool) -> dict[int, list[bool]]:
    """Which views of each pair's image are drawn to their caption."""
    values = torch.tensor(TWO, requires_grad=True)
    apart = different([0, 1])
    loss = (
        multi_view_softmax(values, apart, 0.05, kind)
        if softmax
        else multi_view_triplet(values, apart, 0.0, kind)
    )
    slopes = gradient(values, loss)
    return {i: (slopes[i, i] < 0).tolist() for i in (FOUND, NOT_FOUND)}


def test_the_indicator_leaves_the_other_views_of_a_found_photo_alone() -> None:
    assert trained("max", False) == {FOUND: [False, False], NOT_FOUND: [True, False]}
    assert trained("rough", False) == {FOUND: [False, True], NOT_FOUND: [True, True]}
    assert trained("upper", False) == {FOUND: [False, False], NOT_FOUND: [True, True]}


def test_the_softmax_trains_the_best_view_of_a_found_photo() -> None:
    assert trained("max", True) == {FOUND: [True, False], NOT_FOUND: [True, False]}
    assert trained("rough", True) == {FOUND: [True, True], NOT_FOUND: [True, True]}
    assert trained("upper", True) == {FOUND: [True, False], NOT_FOUND: [True, True]}


def test_ties_are_not_found() -> None:
    values = torch.full((2, 2, 2), 0.5, dtype=torch.float64)
    values[:, :, 1] = 0.1
    losses = [multi_view_softmax(values, different([0, 1]), 0.1, k) for k in ("upper", "rough")]
    assert losses[0] == losses[1]


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_waits_for_the_device(kind: MultiViewVariant) -> None:
    """Tensors without values fail as soon as a value is read."""
    values = torch.empty(5, 5, VIEWS, device="meta", requires_grad=True)
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
