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
from training.vse.adopt import AdoptLoss, AdoptVariant, adopt

BOTH = pytest.mark.parametrize("variant", ["paper", "code"])


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


@BOTH
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


@pytest.mark.parametrize(
    ("alignment", "negative", "printed", "coded"),
    [
        (0.0, 0.0, 127, 70),
        (0.0, 0.05, 127, 76),
        (0.3, 0.05, 123, 32),
        (0.5, 0.05, 116, 1),
        (0.8, 0.05, 99, 1),
        (0.8, 0.0, 102, 1),
    ],
)
def test_k_as_printed_and_as_coded(
    alignment: float, negative: float, printed: int, coded: int
) -> None:
    assert negatives(alignment, negative, "paper") == printed
    assert negatives(alignment, negative, "code") == coded


def test_only_the_code_ends_with_few_negatives_as_the_text_says() -> None:
    """The text starts with many negatives and ends with a handful."""
    alignments = [step / 20 for step in range(21)]
    printed = [negatives(alignment, 0.05, "paper") for alignment in alignments]
    coded = [negatives(alignment, 0.05, "code") for alignment in alignments]
    assert printed == sorted(printed, reverse=True)
    assert coded == sorted(coded, reverse=True)
    assert min(printed) == 85  # of 127, for a perfect alignment
    assert coded[0] > 64
    assert set(coded[10:]) == {1}


def test_as_printed_k_is_1_only_where_all_embeddings_coincide() -> None:
    assert negatives(1.0, 1.0, "paper") == 1
    assert negatives(1.0, 0.5, "paper") > 40


def test_a_mean_below_0_takes_all_negatives() -> None:
    assert negatives(-1.0, 2.0, "code", 8) == 7  # -1 + 0.24 has no 1.25th power
    assert negatives(-0.1, 0.0, "paper", 8) == 7


@BOTH
def test_nothing_waits_for_the_device(variant: AdoptVariant) -> None:
    """Tensors without values fail as soon as a value is read."""
    values = torch.empty(5, 5, device="meta", requires_grad=True)
    found = adopt(values, torch.empty(5, 5, dtype=torch.bool, device="meta"), variant=variant)
    found.loss.backward()
    assert found.negatives.dtype == torch.int64


def test_an_unknown_variant_is_an_error() -> None:
    wrong: Any = "printed"
    with pytest.raises(ValueError, match="variant is 'printed', not 'paper' or 'code'"):
        adopt(similarities(0, 2, 2), different([0, 1]), variant=wrong)
