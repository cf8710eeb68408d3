from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

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


def test_untied_query_embedding_is_its_own_parameter(tmp_path: Path) -> None:
    model = tiny.model()
    with torch.no_grad():
        model.query_embedding.weight.add_(1)
    model.save_pretrained(tmp_path)
    loaded = VisualSparta.from_pretrained(tmp_path)
    words = loaded.encoder.embeddings.word_embeddings.weight
    assert torch.equal(words, model.encoder.embeddings.word_embeddings.weight)
    assert torch.equal(loaded.query_embedding.weight, model.query_embedding.weight)


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


def test_a_file_without_term_frequencies_loads(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
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
