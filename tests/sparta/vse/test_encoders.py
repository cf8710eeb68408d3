"""Batches, the visual projection in training, and how weights start."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from sparta.vse.batch import collate_regions
from sparta.vse.encoders import VisualProjection, WordEncoder
from tests import tiny
from tests.sparta.vse.pools import affine, moments, normalised

LENGTHS = [3, 1, 5, 4]
FEATURES, HIDDEN, DIMENSION = 5, 4, 8


def projection(residual: bool = True) -> VisualProjection:
    torch.manual_seed(1)
    made = VisualProjection(FEATURES, DIMENSION, residual)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
        if made.mlp is not None:
            made.mlp[1].running_mean.normal_()
            made.mlp[1].running_var.uniform_(0.5, 2)
    return made


def features(extra: int = 0, junk: float = 0.0, lengths: list[int] = LENGTHS) -> Tensor:
    padded = torch.full((len(lengths), max(lengths) + extra, FEATURES), junk)
    for i, length in enumerate(lengths):
        generator = torch.Generator().manual_seed(i)
        padded[i, :length] = torch.randn(length, FEATURES, generator=generator)
    return padded


def real(rows: Tensor, lengths: list[int] = LENGTHS) -> Tensor:
    return torch.cat([image[:n] for image, n in zip(rows, lengths, strict=True)])


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("junk", [0.0, 50.0])
def test_regions_get_a_residual_mlp_normalised_over_real_rows(training: bool, junk: float) -> None:
    """FC(x) + MLP(x), the statistics those of exactly the real rows in training."""
    module = projection().train(training)
    parts: Any = module.mlp
    padded = features(extra=2, junk=junk)
    inner = affine(parts[0], real(padded))
    both = moments(inner) if training else (parts[1].running_mean, parts[1].running_var)
    mlp = affine(parts[3], normalised(parts[1], inner, *both).clamp(min=0))
    expected = affine(module.linear, real(padded)) + mlp
    found = module(padded, torch.tensor(LENGTHS))
    assert found.shape == (4, 7, DIMENSION)
    assert_close(real(found), expected, rtol=1e-4, atol=1e-5)


def test_running_statistics_are_of_real_rows() -> None:
    module = projection().train()
    parts: Any = module.mlp
    norm = parts[1]
    before = norm.running_mean.clone(), norm.running_var.clone()
    inner = affine(parts[0], real(features()))
    module(features(extra=3, junk=9.0), torch.tensor(LENGTHS))
    momentum = 0.1
    assert_close(norm.running_mean, (1 - momentum) * before[0] + momentum * inner.mean(dim=0))
    assert_close(norm.running_var, (1 - momentum) * before[1] + momentum * inner.var(dim=0))


def test_a_single_row_is_normalised_as_in_evaluation() -> None:
    module = projection().train()
    assert module.mlp is not None
    before = module.mlp[1].running_mean.clone()
    row = features(lengths=[1])
    found = module(row, torch.tensor([1]))
    assert torch.equal(module.mlp[1].running_mean, before)
    assert_close(found, module.eval()(row, torch.tensor([1])))
    found.sum().backward()
    assert module.mlp[0].weight.grad is not None
    assert module.mlp[0].weight.grad.isfinite().all()


@pytest.mark.parametrize("part", ["projection", "words"])
def test_weights_start_even_within_their_bound(part: str) -> None:
    """A linear layer's is Xavier's."""
    torch.manual_seed(0)
    if part == "words":
        weight, bound = WordEncoder(400, 50, 4, 0.0).embedding.weight, 0.1
    else:
        linear = VisualProjection(200, 100, residual=True).linear
        weight, bound = linear.weight, math.sqrt(6 / 300)
        assert not linear.bias.any()
    assert weight.abs().max() <= bound
    assert_close(weight.std().item(), bound / math.sqrt(3), rtol=0.02, atol=0)


@pytest.mark.parametrize("limit", [1, 2, 4, 9])
def test_the_first_regions_are_kept(limit: int) -> None:
    batch = collate_regions(tiny.images(), limit)
    assert batch.lengths.tolist() == [min(limit, n) for n in (3, 1, 5, 4)]
    kept = int(batch.lengths.max())
    assert torch.equal(batch.regions, collate_regions(tiny.images()).regions[:, :kept])


def test_an_image_without_regions_is_one_zero_vector() -> None:
    batch = collate_regions([tiny.image(0), tiny.image(2)])
    assert batch.lengths.tolist() == [1, 2]
    assert not batch.regions[0].any()
    assert collate_regions([tiny.image(0)]).regions.shape == (1, 1, 5)
