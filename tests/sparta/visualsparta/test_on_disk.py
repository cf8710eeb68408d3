"""Models that are saved and loaded, compact ones, and those with an image head."""

import math
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.nn import functional as F
from torch.testing import assert_close

from sparta.errors import InputError
from sparta.inference import Network, convert
from sparta.visualsparta.batch import ImageBatch
from sparta.visualsparta.config import ImageHeadConfig
from sparta.visualsparta.init import from_config
from sparta.visualsparta.model import ImageTerms, VisualSparta
from sparta.vse.encoders import ImageHead
from tests import tiny


def test_tied_query_embedding_is_the_encoders(tmp_path: Path) -> None:
    model = tiny.model(tie_query_embedding=True)
    assert model.query_embedding.weight is model.encoder.embeddings.word_embeddings.weight
    model.save_pretrained(tmp_path)
    loaded = VisualSparta.from_pretrained(tmp_path)
    assert loaded.query_embedding.weight is loaded.encoder.embeddings.word_embeddings.weight
    scores = [m.term_scores(tiny.batch()).scores for m in (model, loaded)]
    assert torch.equal(*scores)
    with pytest.raises(InputError, match="is tied to the encoder"):
        model.make_compact()


@pytest.mark.parametrize("form", ["whole", "half", "without frequencies"])
def test_saved_and_loaded_model_is_the_same(
    tmp_path: Path, form: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """In float32; models of former versions recorded no frequencies."""
    model = tiny.model().half() if form == "half" else tiny.model()
    model.trained_terms[:10] = False
    model.term_frequencies[3] = 2**40
    model.save_pretrained(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    if form == "without frequencies":
        del weights["term_frequencies"]
        save_file(weights, tmp_path / "model.safetensors", {"format": "pt"})
    capfd.readouterr()
    loaded = VisualSparta.from_pretrained(str(tmp_path))
    assert "term_frequencies" not in "".join(capfd.readouterr())
    assert not loaded.training
    assert loaded.config.feature_source == model.config.feature_source
    found = loaded.state_dict()
    for name, value in weights.items():
        assert torch.equal(found[name], value.float() if value.is_floating_point() else value), name
    assert {p.dtype for p in loaded.parameters()} == {torch.float32}
    assert loaded.term_frequencies.tolist()[3:5] == [2**40 * (form != "without frequencies"), 0]
    assert loaded.trained_terms.tolist() == [i >= 10 for i in range(25)]
    assert loaded.tokenizer is not None
    assert loaded.tokenizer.vocabulary == tiny.VOCABULARY
    if form == "whole":
        queries = loaded.encode_queries(["a dog", "dog dog on the beach", "zebra"])
        assert torch.equal(loaded.score(queries, tiny.batch()), model.score(queries, tiny.batch()))


def saved(folder: Path, **options: Any) -> VisualSparta:
    """A model of which half the terms are trained, saved in compact form."""
    model = tiny.model(**options)
    model.trained_terms[::2] = False
    model.term_frequencies[3] = 7
    model.make_compact()
    model.save_pretrained(folder)
    return model


@pytest.mark.parametrize("use_labels", [True, False])
def test_a_compact_model_scores_as_in_half_precision(tmp_path: Path, use_labels: bool) -> None:
    model = saved(tmp_path, use_labels=use_labels)
    loaded = VisualSparta.from_pretrained(tmp_path)
    assert not loaded.training
    assert loaded.bias.dtype == torch.float32
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter.half())
    scores, wanted = (m.term_scores(tiny.batch()) for m in (loaded, model))
    assert torch.equal(scores.scores, wanted.scores)
    assert torch.equal(scores.positions, wanted.positions)
    assert scores.scores.any()
    assert not scores.scores[:, ~loaded.trained_terms].any()
    for name in ("trained_terms", "indexable", "term_frequencies"):
        assert torch.equal(getattr(loaded, name), getattr(model, name))
    assert loaded.tokenizer is not None
    assert loaded.tokenizer.vocabulary == tiny.VOCABULARY


def test_only_rows_of_trained_terms_are_stored(tmp_path: Path) -> None:
    model = saved(tmp_path, use_labels=False)
    stored = load_file(tmp_path / "model.safetensors")
    assert stored["query_embedding.weight"].shape == (int(model.trained_terms.sum()), 32)
    assert not any("embeddings" in name for name in stored)
    assert {t.dtype for t in stored.values()} == {torch.float16, torch.bool, torch.int32}


def test_damaged_weights_are_named(tmp_path: Path) -> None:
    saved(tmp_path)
    weights = tmp_path / "model.safetensors"
    state = load_file(weights)
    save_file(state | {"trained_terms": torch.ones(4, dtype=torch.bool)}, weights)
    with pytest.raises(ValueError, match=r"model\.safetensors is not a compact model"):
        VisualSparta.from_pretrained(tmp_path)
    save_file(state | {"bias": torch.zeros(3)}, weights)
    with pytest.raises(ValueError, match=r"does not fit its config\.json: see bias"):
        VisualSparta.from_pretrained(tmp_path)
    state.pop("query_embedding.weight")
    save_file(state, weights)
    with pytest.raises(ValueError, match="not a compact model"):
        VisualSparta.from_pretrained(tmp_path)
    weights.write_bytes(b"cut short")
    with pytest.raises(ValueError, match="not a compact model"):
        VisualSparta.from_pretrained(tmp_path)
    weights.unlink()
    with pytest.raises(InputError, match=r"has neither model\.safetensors nor"):
        VisualSparta.from_pretrained(tmp_path)


# ---- image heads: equations 10 and 11 against a slow reference -----------------------------------

REGIONS, DIMENSION = 5, 8


@pytest.fixture(scope="module")
def model() -> VisualSparta:
    torch.manual_seed(0)
    tokenizer = tiny.tokenizer()
    head = ImageHeadConfig(len(tokenizer.vocabulary), hidden_size=6, intermediate_size=7)
    made = from_config(
        head, tokenizer, tiny.source(DIMENSION), use_labels=False, use_locations=False
    )
    assert isinstance(made.head, ImageHead)
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


@pytest.mark.parametrize("side", [2, 3, 5])
def test_terms_of_a_grid_are_seen_in_the_box_with_the_highest_mean(
    model: VisualSparta, side: int, tmp_path: Path
) -> None:
    seen, regions = deepcopy(model), side * side + 1
    seen.config.feature_source = {**(model.config.feature_source or {}), "kind": "grid"}
    batch = batch_of(torch.rand(2, regions, DIMENSION, generator=torch.Generator().manual_seed(2)))
    found, windows = seen.term_scores(batch), seen.windows(regions)
    assert windows is not None and model.windows(regions) is None and model.head is not None
    assert_close(found.scores, model.term_scores(batch).scores, rtol=0, atol=0)
    hidden = model.head(batch.regions.float())[:, :-1].detach()
    for term in model.indexable.nonzero()[:, 0].tolist():
        maps = (hidden @ model.query_embedding.weight[term].detach()).reshape(2, 1, side, side)
        fine = F.interpolate(maps, scale_factor=10, mode="nearest")  # tenths of cells
        means = F.avg_pool2d(fine, 5 * side, stride=side)  # over halves, a tenth of the photo apart
        for one, position in zip(means, found.positions[:, term].tolist(), strict=True):
            y, x = divmod(int(one.argmax()), 6)
            box = torch.tensor([x / 10, y / 10, x / 10 + 0.5, y / 10 + 0.5])
            assert_close(torch.from_numpy(windows.boxes[position]), box, atol=1e-5, rtol=0)
    converted_computes_the_same(seen, batch, tmp_path)


def test_openvino_computes_the_same(model: VisualSparta, batch: ImageBatch, tmp_path: Path) -> None:
    converted_computes_the_same(model, batch, tmp_path)


def converted_computes_the_same(model: VisualSparta, batch: ImageBatch, folder: Path) -> None:
    terms = model.indexable.nonzero()[:, 0]
    module = ImageTerms(model, terms).eval()
    inputs = [batch.regions, batch.locations]
    convert(module, inputs, folder / "network.xml", free=1)
    (scores, positions) = Network(folder / "network.xml")([[one.numpy() for one in inputs]])[0]
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
