import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.testing import assert_close

from sparta.vse.encoders import RowNorm, VisualProjection, WordEncoder, unit
from tests.sparta.vse.pooling.pools import Vector, affine, gru_states
from tests.sparta.vse.slow_projection import slow_projection

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


def real(rows: Tensor, lengths: list[int] = LENGTHS) -> list[Vector]:
    return [row for image, n in zip(rows.tolist(), lengths, strict=True) for row in image[:n]]


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("junk", [0.0, 50.0])
def test_regions_get_a_residual_mlp_normalised_over_real_rows(training: bool, junk: float) -> None:
    module = projection().train(training)
    padded = features(extra=2, junk=junk)
    expected = slow_projection(module, real(padded), training)
    found = module(padded, torch.tensor(LENGTHS))
    assert found.shape == (4, 7, DIMENSION)
    assert_close(torch.tensor(real(found)), torch.tensor(expected), rtol=1e-4, atol=1e-5)


def test_running_statistics_are_of_real_rows() -> None:
    module = projection().train()
    assert module.mlp is not None
    norm: Any = module.mlp[1]
    before = norm.running_mean.clone(), norm.running_var.clone()
    inner = torch.tensor([affine(module.mlp[0], row) for row in real(features())])
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


def test_many_rows_are_normalised_as_torch_does() -> None:
    torch.manual_seed(2)
    ours, theirs = RowNorm(3), nn.BatchNorm1d(3)
    rows = torch.randn(6, 3)
    assert torch.equal(ours(rows), theirs(rows))
    assert torch.equal(ours.eval()(rows[:1]), theirs.eval()(rows[:1]))


@settings(max_examples=25)
@given(extra=st.integers(0, 6), junk=st.sampled_from([0.0, 3.0, -1e30, math.nan, math.inf]))
def test_padding_changes_no_region(extra: int, junk: float) -> None:
    for training in (True, False):
        alone = projection().train(training)(features(), torch.tensor(LENGTHS))
        padded = projection().train(training)(features(extra, junk), torch.tensor(LENGTHS))
        assert_close(torch.tensor(real(padded)), torch.tensor(real(alone)))


def test_grids_get_a_linear_layer_alone() -> None:
    module = projection(residual=False)
    assert module.mlp is None
    found = real(module(features(), torch.tensor(LENGTHS)))
    expected = [affine(module.linear, row) for row in real(features())]
    assert_close(torch.tensor(found), torch.tensor(expected))


def test_the_linear_layer_starts_as_xavier_has_it() -> None:
    torch.manual_seed(0)
    module = VisualProjection(200, 100, residual=True)
    bound = math.sqrt(6 / 300)
    weight = module.linear.weight
    assert weight.abs().max() <= bound
    assert_close(weight.std().item(), bound / math.sqrt(3), rtol=0.02, atol=0)
    assert not module.linear.bias.any()
    assert module.mlp is not None
    assert module.mlp[0].weight.shape == (50, 200)
    assert module.mlp[3].weight.shape == (100, 50)


# ---- words --------------------------------------------------------------------------------------

IDS = [[1, 5, 6, 2], [1, 2], [1, 7, 7, 3, 5, 2], [1]]


def words() -> WordEncoder:
    torch.manual_seed(1)
    return WordEncoder(9, 6, DIMENSION, 0.0)


def padded_ids(extra: int = 0, pad: int = 0) -> tuple[Tensor, Tensor]:
    longest = max(map(len, IDS)) + extra
    rows = [ids + [pad] * (longest - len(ids)) for ids in IDS]
    return torch.tensor(rows), torch.tensor([len(ids) for ids in IDS])


def test_a_words_vector_is_the_mean_of_both_directions() -> None:
    encoder = words()
    found = encoder(*padded_ids(extra=1))
    assert found.shape == (4, 7, DIMENSION)
    for row, ids in zip(found, IDS, strict=True):
        inputs = [encoder.embedding.weight[i].tolist() for i in ids]
        forwards = gru_states(encoder.gru, inputs)
        backwards = gru_states(encoder.gru, inputs[::-1], "l0_reverse")[::-1]
        expected = (torch.tensor(forwards) + torch.tensor(backwards)) / 2
        assert_close(row[: len(ids)], expected, rtol=1e-4, atol=1e-5)
        assert not row[len(ids) :].any()


def test_a_gru_of_one_direction_reads_forwards() -> None:
    torch.manual_seed(1)
    encoder = WordEncoder(9, 6, DIMENSION, 0.0, bidirectional=False)
    for row, ids in zip(encoder(*padded_ids(extra=1)), IDS, strict=True):
        states = gru_states(encoder.gru, [encoder.embedding.weight[i].tolist() for i in ids])
        assert_close(row[: len(ids)], torch.tensor(states), rtol=1e-4, atol=1e-5)
        assert not row[len(ids) :].any()


@settings(max_examples=20)
@given(extra=st.integers(0, 6), pad=st.integers(0, 8))
def test_padding_changes_no_word(extra: int, pad: int) -> None:
    encoder = words()
    found = encoder(*padded_ids(extra, pad))
    assert_close(found[:, : max(map(len, IDS))], encoder(*padded_ids()))
    assert not found[:, max(map(len, IDS)) :].any()


def test_word_embeddings_start_small_and_even() -> None:
    torch.manual_seed(0)
    weight = WordEncoder(100, 50, 4, 0.0).embedding.weight
    assert weight.abs().max() <= 0.1
    assert_close(weight.std().item(), 0.1 / math.sqrt(3), rtol=0.05, atol=0)


def test_dropout_is_of_word_embeddings_in_training_only() -> None:
    torch.manual_seed(0)
    encoder = WordEncoder(9, 6, DIMENSION, 1.0)
    found = encoder(*padded_ids())
    assert torch.equal(found[0, 0], found[3, 0]) is False  # the GRU still tells places apart
    nothing = encoder(torch.zeros_like(padded_ids()[0]), padded_ids()[1])
    assert torch.equal(found, nothing)  # but no longer words
    assert not torch.equal(encoder.eval()(*padded_ids()), nothing)


def test_vectors_are_divided_by_their_norm_and_a_little() -> None:
    vectors = torch.tensor([[3.0, 4.0], [0.0, 0.0], [3e-8, 4e-8]])
    expected = [[0.6, 0.8], [0.0, 0.0], [3 / 6, 4 / 6]]
    assert_close(unit(vectors), torch.tensor(expected))
    assert unit(vectors.half()).dtype == torch.float32
    zero = torch.zeros(1, 3, requires_grad=True)
    unit(zero).sum().backward()
    assert zero.grad is not None
    assert zero.grad.isfinite().all()
