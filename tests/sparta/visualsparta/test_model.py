"""Equations 1 to 12 of the paper, each against a slow and obvious implementation, and the stem."""

import logging
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close
from transformers import BertModel

import sparta.visualsparta.model
from sparta.errors import InputError
from sparta.extract.extractor import grid_boxes
from sparta.features.record import ImageFeatures
from sparta.inference import Network, convert
from sparta.networks.encoder import PixelPatches
from sparta.visualsparta.batch import ImagePadder
from sparta.visualsparta.image_head import ConvolutionalStem
from sparta.visualsparta.init import from_config
from sparta.visualsparta.model import VisualSparta
from tests import tiny

CLOSE: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-5}
QUERIES = ["a dog", "dog dog on the red beach", "zebra", "running", "[MASK] two"]


@pytest.fixture(scope="module")
def model() -> VisualSparta:
    return tiny.model()


def array(tensor: Tensor) -> np.ndarray:
    return tensor.detach().numpy().astype(np.float64)


def slow_regions(model: VisualSparta, image: ImageFeatures) -> np.ndarray:
    """Equations 2 to 5 and the first half of 8, number by number."""
    weight, bias = (array(p) for p in model.region_projection.parameters())
    rows = []
    for visual, (x1, y1, x2, y2) in zip(image.features, image.boxes, strict=True):
        entry = [*map(float, visual), x1, y1, x2, y2, x2 - x1, y2 - y1]
        rows.append([sum(w * e for w, e in zip(row, entry, strict=True)) for row in weight] + bias)
    return np.array(rows)


def label_pieces(image: ImageFeatures) -> list[tuple[int, int]]:
    """(term id, region) of each word piece of the attributes and labels."""
    pieces = []
    for region, words in enumerate(zip(image.attributes, image.labels, strict=True)):
        for word in " ".join(words).split():
            parts = ["run", "##s"] if word == "runs" else [word]
            pieces += [(tiny.VOCABULARY.index(part), region) for part in parts]
    return pieces


def slow_labels(model: VisualSparta, image: ImageFeatures) -> np.ndarray:
    """Equations 6 and 7: the sum of three table rows, normalised as BERT does."""
    tables = model.encoder.embeddings
    token, position, segment = (
        array(table.weight)
        for table in (
            tables.word_embeddings,
            tables.position_embeddings,
            tables.token_type_embeddings,
        )
    )
    scale, shift = (array(p) for p in tables.LayerNorm.parameters())
    rows = []
    for place, (term, _) in enumerate(label_pieces(image)):
        row = token[term] + position[place] + segment[1]
        normal = (row - row.mean()) / math.sqrt(row.var() + tables.LayerNorm.eps)
        rows.append(normal * scale + shift)
    return np.array(rows).reshape(-1, token.shape[1])


def slow_hidden(model: VisualSparta, image: ImageFeatures) -> np.ndarray:
    """Equations 8 and 9: a plain BERT over one image's rows, nothing padded."""
    bert = BertModel(tiny.encoder(), add_pooling_layer=False).eval()
    bert.load_state_dict(model.encoder.state_dict())
    rows = np.concatenate([slow_regions(model, image), slow_labels(model, image)])
    with torch.no_grad():
        return array(bert.encoder(torch.tensor(rows, dtype=torch.float32)[None])[0][0])


def slow_scores(model: VisualSparta, image: ImageFeatures) -> tuple[list[float], list[int]]:
    """Equations 10 to 12 for every term of the vocabulary: its score, and the position that won."""
    hidden, words = slow_hidden(model, image), array(model.query_embedding.weight)
    scores, positions = [], []
    for word in words:
        products = [sum(a * b for a, b in zip(word, row, strict=True)) for row in hidden]
        best = max(range(len(products)), key=products.__getitem__)
        scores.append(math.log(1 + max(0.0, products[best] + model.bias.item())))
        positions.append(best)
    return scores, positions


def test_regions_without_locations_with_roots_and_norm() -> None:
    model = tiny.model(use_locations=False, square_root=True, region_layer_norm=True)
    image = tiny.images()[2]
    weight, bias = (array(p) for p in model.region_projection.parameters())
    scale, shift = (array(p) for p in model.region_norm.parameters())
    projected = np.sqrt(image.features.astype(np.float64)) @ weight.T + bias
    centred = projected - projected.mean(axis=1, keepdims=True)
    expected = centred / np.sqrt(projected.var(axis=1, keepdims=True) + 1e-5) * scale + shift
    assert_close(array(model.embed_regions(tiny.batch([image]))[0]), expected, **CLOSE)


def test_term_scores_and_winning_positions_of_every_term(model: VisualSparta) -> None:
    found = model.term_scores(tiny.batch())
    assert (found.scores.dtype, found.positions.dtype) == (torch.float32, torch.int16)
    first = tiny.VOCABULARY.index("a")
    by_label = 0
    for i, image in enumerate(tiny.images()):
        scores, positions = slow_scores(model, image)
        assert {score > 0 for score in scores[first:]} == {True, False}
        assert_close(found.scores[i, first:].tolist(), scores[first:], **CLOSE)
        assert found.positions[i, first:].tolist() == positions[first:]
        by_label += sum(position >= len(image.features) for position in positions[first:])
    assert by_label, "no label token ever won: the test would not see a wrong position"


def test_special_and_unused_terms_never_score() -> None:
    model = tiny.model()
    torch.nn.init.constant_(model.bias, 50.0)
    kept = model.term_scores(tiny.batch()).scores > 0
    assert not kept[:, :6].any()
    assert kept[:, 6:].all()
    assert model.encode_images(tiny.batch()).terms.min() == 6


def test_score_sums_over_query_tokens_and_counts_repeats(model: VisualSparta) -> None:
    queries = model.encode_queries(QUERIES)
    found = model.score(queries, tiny.batch())
    bags = [["a", "dog"], ["dog", "dog", "on", "the", "red", "beach"], [], ["run", "##ning"]]
    bags.append(["two"])
    for column, image in enumerate(tiny.images()):
        scores, _ = slow_scores(model, image)
        for row, bag in enumerate(bags):
            expected = sum((scores[tiny.VOCABULARY.index(term)] for term in bag), 0.0)
            assert_close(float(found[row, column]), expected, **CLOSE)
    assert_close(model(tiny.batch(), queries), found)
    assert not found.requires_grad


@pytest.mark.parametrize("chunk", [1, 7, 25, 1000])
def test_chunks_over_the_vocabulary_change_nothing(
    model: VisualSparta, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does it what other terms are asked for."""
    whole, wanted = model.term_scores(tiny.batch()), torch.arange(25) % 2 == 0
    monkeypatch.setattr(sparta.visualsparta.model, "VOCABULARY_CHUNK", chunk)
    again, part = model.term_scores(tiny.batch()), model.term_scores(tiny.batch(), wanted)
    assert_close(again.scores, whole.scores, **CLOSE)
    assert torch.equal(again.positions, whole.positions)
    assert_close(part.scores, whole.scores * wanted, **CLOSE)
    assert torch.equal(part.positions[:, wanted], whole.positions[:, wanted])


def test_encoded_images_are_the_positive_term_scores(model: VisualSparta) -> None:
    dense, sparse = model.term_scores(tiny.batch()), model.encode_images(tiny.batch())
    assert [a.dtype for a in sparse] == [np.int64, np.int32, np.float32, np.int16]
    assert sparse.indptr[0] == 0
    for i in range(4):
        own = slice(sparse.indptr[i], sparse.indptr[i + 1])
        terms = [t for t, score in enumerate(dense.scores[i].tolist()) if score > 0]
        assert sparse.terms[own].tolist() == terms
        assert sparse.scores[own].tolist() == dense.scores[i, terms].tolist()
        assert sparse.positions[own].tolist() == dense.positions[i, terms].tolist()


def test_unused_inputs_change_nothing() -> None:
    batch = tiny.batch()
    elsewhere = replace(batch, locations=batch.locations + 1)
    renamed = replace(batch, label_ids=(batch.label_ids + 1) % 25)
    repainted = replace(elsewhere, regions=batch.regions + 1)
    for options, same, other in (
        ({"use_locations": False}, elsewhere, renamed),
        ({"use_labels": False}, renamed, elsewhere),
        ({"use_visual": False}, repainted, renamed),
    ):
        model = tiny.model(**options)
        expected = model.term_scores(batch).scores
        assert torch.equal(model.term_scores(same).scores, expected)
        assert not torch.allclose(model.term_scores(other).scores, expected)


def test_labels_alone_are_an_image(model: VisualSparta) -> None:
    """As if there were no regions; an image without labels then has no terms, nor NaN."""
    alone = tiny.model(use_visual=False)
    image, unlabelled = tiny.image(3, ("dog", "red ball"), 1), tiny.image(2)
    batch = tiny.batch([image, unlabelled])
    expected = replace(batch, region_mask=torch.zeros_like(batch.region_mask))
    found = alone.term_scores(batch)
    assert_close(found.scores[0], model.term_scores(expected).scores[0], **CLOSE)
    assert found.scores[0].any()
    assert not found.scores[1].any()
    assert set(found.positions[0][found.scores[0] > 0].tolist()) <= {3, 4, 5, 6}
    alone.image_term_scores([batch], torch.arange(6, 25)).sum().backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in alone.parameters())


SIDE = 48
WIDTHS = [4, 6, 8]
SOURCE = PixelPatches(SIDE).source


def patches(pixels: np.ndarray) -> Tensor:
    return torch.from_numpy(PixelPatches(SIDE).encode(pixels)[0]).float()


@pytest.fixture(scope="module")
def pixels() -> np.ndarray:
    return np.random.default_rng(5).integers(0, 256, (2, SIDE, SIDE, 3), dtype=np.uint8)


@pytest.fixture(scope="module")
def stem() -> ConvolutionalStem:
    torch.manual_seed(0)
    return ConvolutionalStem(WIDTHS).eval()


def test_it_reads_the_photo(stem: ConvolutionalStem, pixels: np.ndarray) -> None:
    photo = (torch.from_numpy(pixels).permute(0, 3, 1, 2) / 127.5 - 1).half().float()
    with torch.no_grad():
        found, expected = stem(patches(pixels)), stem.layers(photo)
    assert expected.shape == (2, 8, 3, 3)
    assert found.shape == (2, 10, 8)
    for row in range(3):
        for column in range(3):
            assert_close(found[:, 3 * row + column], expected[:, :, row, column])
    assert_close(found[:, 9], expected.mean(dim=(2, 3)))


def test_a_converted_stem(stem: ConvolutionalStem, pixels: np.ndarray, tmp_path: Path) -> None:
    squares = patches(pixels)
    convert(stem, [squares], tmp_path / "network.xml", free=1)
    network = Network(tmp_path / "network.xml")
    with torch.no_grad():
        expected = stem(squares)
    for count in (1, 2, 3):
        several = squares[[0, 1, 0][:count]]
        found = torch.from_numpy(network([[several.numpy()]])[0][0])
        assert_close(found, expected[[0, 1, 0][:count]], atol=1e-5, rtol=1e-4)


def with_stem(**options: object) -> VisualSparta:
    return from_config(tiny.encoder(), tiny.tokenizer(), SOURCE, stem=WIDTHS, **options)


def test_a_model_with_a_stem_is_saved_and_loaded(tmp_path: Path, pixels: np.ndarray) -> None:
    images = [
        ImageFeatures(f"{i}", rows, grid_boxes(3, 3), ("",) * 10, ("",) * 10, SIDE, SIDE)
        for i, rows in enumerate(PixelPatches(SIDE).encode(pixels)[0])
    ]
    made = with_stem(use_labels=False).train()
    made.term_scores(tiny.batch(images))  # running means and deviations move
    made.eval().save_pretrained(tmp_path)
    loaded = VisualSparta.from_pretrained(tmp_path)
    assert loaded.config.stem == WIDTHS
    scores = made.term_scores(tiny.batch(images)).scores
    assert scores.any()
    assert torch.equal(loaded.term_scores(tiny.batch(images)).scores, scores)


def test_what_does_not_go_together_is_refused() -> None:
    with pytest.raises(InputError, match="raw pixel patches, these are region features"):
        from_config(tiny.encoder(), tiny.tokenizer(), tiny.source(), stem=WIDTHS)
    with pytest.raises(InputError, match=r"set model\.options\.max_regions to 10"):
        with_stem(max_regions=9)
    with pytest.raises(ValueError, match="regions"):
        tiny.model(use_visual=False, use_labels=False)
    model = tiny.model()
    model.tokenizer = None
    with pytest.raises(ValueError, match="no tokenizer"):
        model.encode_queries(["a dog"])


IDS = {term: i for i, term in enumerate(tiny.VOCABULARY)}


@pytest.mark.parametrize("limit", [1, 2, 4, 5])
def test_further_regions_are_cut(limit: int, caplog: pytest.LogCaptureFixture) -> None:
    collate = ImagePadder(tiny.tokenizer(), limit, 35)
    image = tiny.image(4, ("dog", "cat", "man", "tree"))
    with caplog.at_level(logging.WARNING):
        batch = collate([image])
        collate([image])
    kept = min(limit, 4)
    assert batch.regions.shape[1] == kept
    assert batch.label_regions.max() == kept - 1
    assert len(caplog.records) == (limit < 4)  # said once, not for every image
    assert all("0-4.jpg has 4 regions" in r.message for r in caplog.records)


def test_the_collator_of_a_configuration() -> None:
    config = tiny.model(max_regions=2, max_label_tokens=3, use_attributes=False).config
    batch = ImagePadder.of(tiny.tokenizer(), config)([tiny.image(4, ("dog", "red cat", "man"))])
    assert batch.regions.shape[1] == 2
    assert batch.label_ids.tolist() == [[IDS["dog"], IDS["red"], IDS["cat"]]]
