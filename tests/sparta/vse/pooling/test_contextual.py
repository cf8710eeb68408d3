import math

import pytest
import torch
from torch import nn

from sparta.vse.pooling.contextual import GCN, GCNSeq2Seq, GraphConvolution, SelfAttention, Seq2Seq
from tests.sparta.vse.pooling.pools import (
    DIMENSION,
    Vector,
    affine,
    assert_computes,
    columns,
    dot,
    gru_states,
    make,
    padded,
    softmax,
)

LENGTHS = (1, 4, 7, 2)


def mean(elements: list[Vector]) -> Vector:
    return [sum(c) / len(c) for c in columns(elements)]


def add(a: Vector, b: Vector) -> Vector:
    return [x + y for x, y in zip(a, b, strict=True)]


@pytest.mark.parametrize("heads", [1, 2, 8])
def test_self_attention(heads: int) -> None:
    pooling = make("self-attention", heads=heads)
    assert isinstance(pooling, SelfAttention)
    width = DIMENSION // heads

    def reference(x: list[Vector]) -> Vector:
        projected = [affine(pooling.projection, element) for element in x]
        contextual = []
        for i, element in enumerate(x):
            attended: Vector = []
            for head in range(heads):
                q, k, v = (slice(p * DIMENSION + head * width, None) for p in range(3))
                query = projected[i][q][:width]
                logits = [dot(query, other[k][:width]) / math.sqrt(width) for other in projected]
                values = columns([other[v][:width] for other in projected])
                attended += [dot(softmax(logits), c) for c in values]
            contextual.append(add(element, attended))
        return mean(contextual)

    assert_computes(pooling, reference, LENGTHS)


def test_seq2seq() -> None:
    pooling = make("seq2seq")
    assert isinstance(pooling, Seq2Seq)
    assert_computes(pooling, lambda x: gru_states(pooling.gru, x)[-1], LENGTHS)


def slow_updates(layer: GraphConvolution, x: list[Vector]) -> list[Vector]:
    """What a graph convolution adds to one set, before the batch norm."""
    messages = columns([affine(layer.message, element) for element in x])
    updates = []
    for element in x:
        theta = affine(layer.theta, element)
        affinity = [dot(theta, affine(layer.phi, other)) / len(x) for other in x]
        updates.append(affine(layer.update, [dot(affinity, c) for c in messages]))
    return updates


def slow_norm(norm: nn.BatchNorm1d, vector: Vector, means: Vector, variances: Vector) -> Vector:
    scales, shifts = norm.weight.tolist(), norm.bias.tolist()
    parts = zip(vector, means, variances, scales, shifts, strict=True)
    return [(v - m) / math.sqrt(var + norm.eps) * a + b for v, m, var, a, b in parts]


def slow_layer(layer: GraphConvolution, x: list[Vector]) -> list[Vector]:
    """A graph convolution in eval mode."""
    norm = layer.norm
    assert norm.running_mean is not None
    assert norm.running_var is not None
    means, variances = norm.running_mean.tolist(), norm.running_var.tolist()
    changes = [slow_norm(norm, update, means, variances) for update in slow_updates(layer, x)]
    return [add(element, change) for element, change in zip(x, changes, strict=True)]


def test_gcn() -> None:
    pooling = make("gcn").eval()
    assert isinstance(pooling, GCN)
    (layer,) = pooling.layers
    assert isinstance(layer, GraphConvolution)
    assert_computes(pooling, lambda x: mean(slow_layer(layer, x)), LENGTHS)


def test_gcn_in_training_normalises_over_the_real_elements_of_the_batch() -> None:
    pooling = make("gcn")
    assert isinstance(pooling, GCN)
    (layer,) = pooling.layers
    assert isinstance(layer, GraphConvolution)
    features, counts = padded(list(LENGTHS), extra=3, junk=5.0)
    sets = [row[:n].tolist() for row, n in zip(features, LENGTHS, strict=True)]
    updates = [slow_updates(layer, x) for x in sets]
    values = columns([update for of_one in updates for update in of_one])
    means = [sum(c) / len(c) for c in values]
    variances = [sum((v - m) ** 2 for v in c) / len(c) for c, m in zip(values, means, strict=True)]
    expected = []
    for x, of_one in zip(sets, updates, strict=True):
        changes = [slow_norm(layer.norm, update, means, variances) for update in of_one]
        expected.append(mean([add(a, b) for a, b in zip(x, changes, strict=True)]))
    found = pooling(features, counts)
    torch.testing.assert_close(found, torch.tensor(expected), rtol=1e-3, atol=1e-4)


def test_gcn_starts_as_the_mean() -> None:
    features, lengths = padded([1, 5, 9])
    torch.testing.assert_close(GCN(DIMENSION)(features, lengths), make("mean")(features, lengths))


def test_gcn_seq2seq() -> None:
    pooling = make("gcn-seq2seq").eval()
    assert isinstance(pooling, GCNSeq2Seq)
    assert len(pooling.layers) == 4

    def reference(x: list[Vector]) -> Vector:
        for layer in pooling.layers:
            assert isinstance(layer, GraphConvolution)
            x = slow_layer(layer, x)
        return gru_states(pooling.gru, x)[-1]

    assert_computes(pooling, reference, LENGTHS)
