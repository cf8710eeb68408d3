"""Losses of dense models against slow ones, on batches of random similarities."""

import math
from typing import Any

import pytest
import torch

from training.vse.losses import (
    AdoptLoss,
    AdoptVariant,
    MultiViewVariant,
    adopt,
    triplet,
)

# Photos 3 and 5 have two captions each.
PHOTOS = [3, 5, 3, 8, 9, 5, 1]
Nested = Any  # similarities as nested lists


def similarities(seed: int, *shape: int) -> torch.Tensor:
    """Cosines with a gradient, positives above the others on average."""
    generator = torch.Generator().manual_seed(seed)
    found = (0.4 * torch.randn(shape, generator=generator, dtype=torch.float64)).tanh()
    found.diagonal().add_(0.3)
    return found.requires_grad_()


def different(photos: list[int]) -> torch.Tensor:
    own = torch.tensor(photos)
    return own[:, None] != own


def gradient(values: torch.Tensor, loss: torch.Tensor) -> torch.Tensor:
    (found,) = torch.autograd.grad(loss, values)
    return found


# With and without a second caption of a photo, and without any negative.
BATCHES = [PHOTOS, list(range(7)), [0] * 7]


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
    """MV-VSE equations 8-15, one text or image after the other; "max" of one view is GPO's 1."""
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
@pytest.mark.parametrize("margin", [0.0, 0.2, 0.5])
def test_equations_8_to_15(
    kind: MultiViewVariant, hardest: bool, photos: list[int], views: int, margin: float
) -> None:
    values = similarities(0, 7, 7, views)
    found = triplet(values, different(photos), margin, kind, 0.6, hardest)
    expected = slow_triplet(values.tolist(), photos, margin, kind, 0.6, hardest)
    assert found.item() == pytest.approx(expected)
    assert gradient(values, found).isfinite().all()


# ---- ADOPT ---------------------------------------------------------------------------------------


def slow_adopt(values: Nested, photos: list[int], temperature: float, variant: str) -> AdoptLoss:
    """VSE+2AD section 3.3 as printed, or as published, one pair after the other."""
    size = len(photos)
    cells = [(i, j) for i in range(size) for j in range(size)]
    alignment = sum(values[i][i] for i in range(size)) / size
    if variant == "paper":
        uniformity = math.log(sum(math.exp(values[i][j]) for i, j in cells) / size**2)
        wanted = math.floor(size * math.cos((alignment + uniformity) * math.pi / 4))
    else:
        uniformity = sum(math.exp(-values[i][j]) if i != j else 1.0 for i, j in cells) / size**2
        wanted = int(math.cos((alignment + uniformity) ** 1.25) * size) + 1
    count = max(1, min(wanted, size - 1))
    total = 0.0
    for i, photo in enumerate(photos):
        others = [j for j, other in enumerate(photos) if other != photo]
        for negatives in ([values[i][j] for j in others], [values[j][i] for j in others]):
            used = sorted(negatives, reverse=True)[:count]
            below = [math.exp(negative / temperature) for negative in used]
            if variant == "code":
                below = [math.exp((negative + 0.2) / temperature) for negative in used]
                below.append(math.exp(values[i][i] / temperature))
            if below:
                total -= math.log(math.exp(values[i][i] / temperature) / sum(below)) / size
    loss = total / 2 if variant == "code" else total
    return AdoptLoss(*map(torch.tensor, (loss, alignment, uniformity, count)))


@pytest.mark.parametrize("variant", ["paper", "code"])
@pytest.mark.parametrize("photos", [PHOTOS, list(range(7)), [0] * 6 + [1], [0] * 7])
@pytest.mark.parametrize("shift", [-2.0, 0.0, 0.1, 0.2, 0.3])
def test_section_3_3(variant: AdoptVariant, photos: list[int], shift: float) -> None:
    """Where all are below 0, a positive set to 0 among them would be the hardest negative."""
    values = similarities(round(10 * abs(shift)), 7, 7)
    values.data += shift  # another alignment, another K
    found = adopt(values, different(photos), 0.07, variant)
    expected = slow_adopt(values.tolist(), photos, 0.07, variant)
    for one, other in zip(found, expected, strict=True):
        assert one.item() == pytest.approx(other.item())
    assert [each.requires_grad for each in found] == [True, False, False, False]
    with torch.autograd.set_detect_anomaly(True):  # every step on the way back is a number
        assert gradient(values, found.loss).isfinite().all()


def negatives(alignment: float, negative: float, variant: AdoptVariant, size: int = 128) -> int:
    """K of a batch whose positives and negatives are all alike."""
    values = torch.full((size, size), negative, dtype=torch.float64)
    values.fill_diagonal_(alignment)
    return int(adopt(values, different(list(range(size))), variant=variant).negatives)


def test_a_mean_below_0_takes_all_negatives() -> None:
    assert negatives(-1.0, 2.0, "code", 8) == 7  # -1 + 0.24 has no 1.25th power
    assert negatives(-0.1, 0.0, "paper", 8) == 7
