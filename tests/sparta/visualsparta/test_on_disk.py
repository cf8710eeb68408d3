"""Models that are saved and loaded, and compact ones, which take a tenth of the space."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from sparta.errors import InputError
from sparta.visualsparta.model import VisualSparta
from tests import tiny


def test_tied_query_embedding_is_the_encoders(tmp_path: Path) -> None:
    model = tiny.model(tie_query_embedding=True)
    assert model.query_embedding.weight is model.encoder.embeddings.word_embeddings.weight
    model.save_pretrained(tmp_path)
    loaded = VisualSparta.from_pretrained(tmp_path)
    assert loaded.query_embedding.weight is loaded.encoder.embeddings.word_embeddings.weight
    scores = [m.term_scores(tiny.batch()).scores for m in (model, loaded)]
    assert torch.equal(*scores)


def test_saved_and_loaded_model_is_the_same(tmp_path: Path) -> None:
    model = tiny.model()
    model.trained_terms[:10] = False
    model.term_frequencies[3] = 2**40
    model.save_pretrained(tmp_path)
    loaded = VisualSparta.from_pretrained(str(tmp_path))
    assert not loaded.training
    assert loaded.config.feature_source == model.config.feature_source
    for name, value in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], value), name
    assert loaded.trained_terms.tolist() == [i >= 10 for i in range(25)]
    assert loaded.tokenizer is not None
    assert loaded.tokenizer.vocabulary == tiny.VOCABULARY
    queries = loaded.encode_queries(["a dog", "dog dog on the beach", "zebra"])
    assert torch.equal(loaded.score(queries, tiny.batch()), model.score(queries, tiny.batch()))


def test_without_term_frequencies(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    model = tiny.model()
    model.term_frequencies += 7
    model.save_pretrained(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    del weights["term_frequencies"]
    save_file(weights, tmp_path / "model.safetensors", {"format": "pt"})
    capfd.readouterr()
    loaded = VisualSparta.from_pretrained(tmp_path)
    assert "term_frequencies" not in "".join(capfd.readouterr())
    assert loaded.term_frequencies.dtype == torch.int64
    assert loaded.term_frequencies.tolist() == [0] * 25
    for name, value in weights.items():
        assert torch.equal(loaded.state_dict()[name], value), name


def test_half_precision_file_loads_in_float32(tmp_path: Path) -> None:
    model = tiny.model().half()
    model.save_pretrained(tmp_path)
    stored = load_file(tmp_path / "model.safetensors")
    assert stored["region_projection.weight"].dtype == torch.float16
    loaded = VisualSparta.from_pretrained(tmp_path)
    assert {p.dtype for p in loaded.parameters()} == {torch.float32}
    for name, value in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], value.to(loaded.state_dict()[name].dtype))
    assert loaded.trained_terms.dtype == torch.bool
    assert loaded.term_frequencies.dtype == torch.int64


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


def test_a_compact_model_saved_again_is_the_same(tmp_path: Path) -> None:
    saved(tmp_path / "first", use_labels=False)
    VisualSparta.from_pretrained(tmp_path / "first").save_pretrained(tmp_path / "second")
    first, second = (load_file(tmp_path / n / "model.safetensors") for n in ("first", "second"))
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_a_tied_query_embedding_cannot_be_shrunk() -> None:
    with pytest.raises(InputError, match="is tied to the encoder"):
        tiny.model(tie_query_embedding=True).make_compact()


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
