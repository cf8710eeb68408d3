"""Images in order of length: fewer positions are computed, and scores stay the same."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import indexer.encoding.encoder
from indexer.encoding.encoder import ImageEncoder, read_inputs
from indexer.encoding.scorers import TorchScorer
from sparta.features.record import ImageFeatures
from sparta.features.store import FeatureStore
from sparta.visualsparta.batch import ImageBatch, ImagePadder
from sparta.visualsparta.model import TermScores, VisualSparta
from tests import tiny
from tests.stores import write_store

COUNT, BATCH = 29, 4


def draw(number: int) -> ImageFeatures:
    """One to nine regions, some of them with labels."""
    rng = np.random.default_rng(number)
    regions = int(rng.integers(1, 10))
    labels = tuple(rng.choice(["", "dog", "red ball", "runs"], regions).tolist())
    return tiny.image(regions, labels, seed=10 + number)


@pytest.fixture
def encoder(tmp_path: Path) -> ImageEncoder:
    write_store(tmp_path / "store", tiny.source(), [draw(n) for n in range(COUNT)])
    store = FeatureStore.open(tmp_path / "store")
    return ImageEncoder([TorchScorer(tiny.model())], tiny.tokenizer(), [store], BATCH)


@pytest.mark.parametrize("window", [1, 3, 16])
def test_scores_are_those_of_each_image_alone(
    encoder: ImageEncoder, window: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexer.encoding.encoder, "WINDOW", window)
    rows = [*range(3, COUNT), 0, 1, 2]
    found = list(encoder.scored(rows))
    sizes = [len(part.ids) for part in found]
    assert sum(sizes) == COUNT and max(sizes) == min(COUNT, window * BATCH)
    assert [i for part in found for i in part.ids] == [encoder.store.ids[row] for row in rows]
    scores = np.concatenate([part.scores for part in found])
    positions = np.concatenate([part.positions for part in found])
    inputs = [read for part in found for read in part.inputs]
    for place, row in enumerate(rows):
        image = encoder.store[row]
        batch = tiny.batch([image])
        alone = tiny.model().term_scores(batch)
        right = alone.scores[0][encoder.terms]
        np.testing.assert_allclose(scores[place], right, rtol=1e-4, atol=1e-5)
        assert np.array_equal(positions[place], alone.positions[0][encoder.terms])
        assert np.array_equal(inputs[place].boxes, image.boxes)
        assert inputs[place].label_terms.tolist() == batch.label_ids[0].tolist()


def test_images_of_similar_length_share_a_pass(
    encoder: ImageEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed: list[int] = []
    score = VisualSparta.term_scores

    def counting(model: VisualSparta, batch: ImageBatch, wanted: torch.Tensor) -> TermScores:
        computed.append(batch.region_mask.numel() + batch.label_mask.numel())
        return score(model, batch, wanted)

    monkeypatch.setattr(VisualSparta, "term_scores", counting)
    sums = []
    for window in (1, 16):
        monkeypatch.setattr(indexer.encoding.encoder, "WINDOW", window)
        computed.clear()
        list(encoder.scored(range(COUNT)))
        sums.append(sum(computed))
    padder = encoder._padders[0]
    least = sum(padder.length(image) for image in encoder.store)
    plain, ordered = (found - least for found in sums)
    assert 0 <= ordered < 0.6 * plain


RUNS = ["brown", "run", "##s", "sea", "brown", "man"]  # of the third image's regions 1 to 3


@pytest.mark.parametrize(
    ("options", "regions", "labels"),
    [
        ({}, [3, 1, 5, 4], [["dog", "brown", "red", "ball"], [], RUNS, ["tree"]]),
        ({"use_labels": False}, [3, 1, 5, 4], [[], [], [], []]),
        ({"max_label_tokens": 2}, [3, 1, 5, 4], [["dog", "brown"], [], RUNS[:2], ["tree"]]),
        (
            {"max_regions": 2},
            [2, 1, 2, 2],
            [["dog", "brown", "red", "ball"], [], RUNS[:3], ["tree"]],
        ),
    ],
)
def test_inputs_are_what_the_model_reads(
    options: dict[str, Any], regions: list[int], labels: list[list[str]]
) -> None:
    config, images = tiny.model(**options).config, tiny.images()
    limits = config.max_regions, config.max_label_tokens, config.use_attributes
    padded = ImagePadder(tiny.tokenizer(), *limits).pad(images)
    inputs = list(read_inputs(images, padded, config.use_labels))
    for image, read, r, own in zip(images, inputs, regions, labels, strict=True):
        assert read.boxes.tolist() == image.boxes[:r].tolist()
        assert [tiny.VOCABULARY[i] for i in read.label_terms] == own
        assert len(read.label_regions) == len(own)
    assert inputs[0].label_regions.tolist() == [0, 1, 1, 1][: len(labels[0])]
