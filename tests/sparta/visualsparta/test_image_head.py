"""A model with an image head: equations 10 and 11 against a slow reference, converted, on disk."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from sparta.inference import Network, convert
from sparta.visualsparta.batch import ImageBatch
from sparta.visualsparta.config import ImageHeadConfig
from sparta.visualsparta.image_terms import ImageTerms
from sparta.visualsparta.init import from_config
from sparta.visualsparta.model import VisualSparta
from tests import tiny

REGIONS, DIMENSION = 5, 8


@pytest.fixture(scope="module")
def model() -> VisualSparta:
    torch.manual_seed(0)
    tokenizer = tiny.tokenizer()
    head = ImageHeadConfig(len(tokenizer.vocabulary), hidden_size=6, intermediate_size=7)
    made = from_config(
        head, tokenizer, tiny.source(DIMENSION), use_labels=False, use_locations=False
    )
    assert made.head is not None
    made.head.standardise(torch.rand(50, DIMENSION))
    torch.nn.init.normal_(made.query_embedding.weight)
    return made.eval()


@pytest.fixture(scope="module")
def batch() -> ImageBatch:
    """Two photos of five regions, the last of them the whole."""
    generator = torch.Generator().manual_seed(1)
    return batch_of(torch.rand(2, REGIONS, DIMENSION, generator=generator))


def batch_of(regions: torch.Tensor) -> ImageBatch:
    none = torch.zeros(2, 0, dtype=torch.int64)
    everywhere = torch.ones(regions.shape[:2], dtype=torch.bool)
    locations = torch.zeros(*regions.shape[:2], 6)
    return ImageBatch(regions.half(), locations, everywhere, none, none.bool(), none)


def slow_vector(model: VisualSparta, region: np.ndarray, whole: bool) -> list[float]:
    """Number by number: root, standardise, of the whole two layers, a linear one; length 1; a 1."""
    head = model.head
    assert head is not None
    state = {name: value.double().numpy() for name, value in head.state_dict().items()}
    x = [
        (math.sqrt(value) - mean) / deviation
        for value, mean, deviation in zip(region, state["mean"], state["deviation"], strict=True)
    ]
    hidden = []
    for row, bias in zip(state["hidden.weight"], state["hidden.bias"], strict=True):
        y = sum(w * v for w, v in zip(row, x, strict=True)) + bias
        hidden.append(y * (1 + math.erf(y / math.sqrt(2))) / 2)
    found = []
    for row, bias, skip in zip(
        state["output.weight"], state["output.bias"], state["skip.weight"], strict=True
    ):
        y = (sum(w * v for w, v in zip(row, hidden, strict=True)) + bias) * whole
        found.append(y + sum(w * v for w, v in zip(skip, x, strict=True)))
    length = math.sqrt(sum(y * y for y in found))
    return [*(y / length for y in found), 1.0]


def test_scores_of_the_whole_and_positions_of_parts(model: VisualSparta, batch: ImageBatch) -> None:
    found = model.term_scores(batch)
    vectors = model.query_embedding.weight.detach().double().numpy()
    for image in range(2):
        rows = batch.regions[image].double().numpy()
        hidden = [slow_vector(model, row, n == REGIONS - 1) for n, row in enumerate(rows)]
        for term in model.indexable.nonzero()[:, 0].tolist():
            products = [sum(map(math.prod, zip(h, vectors[term], strict=True))) for h in hidden]
            score = math.log(1 + max(0.0, products[-1]))
            assert found.scores[image, term].item() == pytest.approx(score, abs=1e-4)
            assert found.positions[image, term].item() == int(np.argmax(products[:-1]))


def test_a_photo_of_one_region_is_its_own_position(model: VisualSparta, batch: ImageBatch) -> None:
    alone = batch_of(batch.regions[:, -1:])
    found, whole = model.term_scores(alone), model.term_scores(batch)
    assert_close(found.scores, whole.scores)
    assert not found.positions.any()


def test_openvino_computes_the_same(model: VisualSparta, batch: ImageBatch, tmp_path: Path) -> None:
    terms = model.indexable.nonzero()[:, 0]
    module = ImageTerms(model, terms).eval()
    inputs = [batch.regions, batch.locations]
    convert(module, inputs, tmp_path / "network.xml", batches=True)
    (scores, positions) = Network(tmp_path / "network.xml")([[one.numpy() for one in inputs]])[0]
    expected = model.term_scores(batch)
    np.testing.assert_allclose(scores, expected.scores[:, terms], atol=1e-4)
    np.testing.assert_array_equal(positions, expected.positions[:, terms])


def test_a_compact_copy_scores_alike(
    model: VisualSparta, batch: ImageBatch, tmp_path: Path
) -> None:
    expected = model.term_scores(batch).scores
    model.save_pretrained(tmp_path / "whole")
    assert_close(
        VisualSparta.from_pretrained(tmp_path / "whole").term_scores(batch).scores, expected
    )
    copy = VisualSparta.from_pretrained(tmp_path / "whole")
    copy.make_compact()
    copy.save_pretrained(tmp_path / "compact")
    found = VisualSparta.from_pretrained(tmp_path / "compact").term_scores(batch).scores
    assert_close(found, expected, atol=5e-3, rtol=5e-3)
