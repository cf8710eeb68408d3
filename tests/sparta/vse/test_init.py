"""How dense models start, and their batches and projection in training."""

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from torch import Tensor
from torch.testing import assert_close

from sparta.errors import InputError
from sparta.features.record import FeatureKind, FeatureSource
from sparta.tokenizer import TermTokenizer
from sparta.vse.batch import collate_regions
from sparta.vse.encoders import VisualProjection
from sparta.vse.init import from_bert, from_captions
from sparta.vse.model import VseModel
from tests import tiny
from tests.sparta.visualsparta.test_init import SIZES, byte_pairs, save_checkpoint
from tests.sparta.vse.models import CAPTIONS, SMALL, affine, moments, normalised, save_bert


def test_words_of_the_captions_make_the_vocabulary() -> None:
    model = from_captions(CAPTIONS, tiny.source(), **SMALL, text_dropout=0.3)
    assert model.tokenizer is not None
    assert model.config.vocabulary_size == len(model.tokenizer)
    assert model.word_encoder.embedding.weight.shape == (len(model.tokenizer), 6)
    assert (model.config.text, model.config.feature_dim) == ("bigru", tiny.DIMENSION)
    assert model.config.feature_source["weights"] == "abc"
    assert model.word_encoder.dropout.p == 0.3
    assert model.tokenizer.unknown("a zebra") == ["zebra"]
    forwards = from_captions(CAPTIONS, tiny.source(), **SMALL, text="gru", text_pooling="last")
    assert not forwards.word_encoder.gru.bidirectional
    rarer = from_captions([*CAPTIONS, "a zebra"], tiny.source(), min_count=1, **SMALL)
    assert rarer.tokenizer is not None
    assert rarer.tokenizer.unknown("a zebra") == []


@pytest.mark.parametrize(
    ("kind", "visual"),
    [("region", "region"), ("grid", "grid"), ("patch", "patch"), ("pixels", "patch")],
)
def test_the_source_decides_the_projection_unless_told(kind: FeatureKind, visual: str) -> None:
    source = FeatureSource(kind, "network", "abc", 5, 64)
    assert from_captions(CAPTIONS, source, **SMALL).config.visual == visual
    assert from_captions(CAPTIONS, source, **SMALL, visual="grid").config.visual == "grid"


def roberta(size: int) -> Any:
    return hf.RobertaModel(hf.RobertaConfig(vocab_size=size, type_vocab_size=1, **SIZES))


@pytest.mark.parametrize(
    ("make", "tokenizer", "longest"),
    [
        (lambda _: hf.BertModel(tiny.encoder()), tiny.tokenizer(), 40),
        (roberta, byte_pairs(), 38),  # counts positions from behind padding
    ],
    ids=["bert", "roberta"],
)
def test_text_side_starts_from_the_checkpoint(
    make: Any, tokenizer: TermTokenizer, longest: int, tmp_path: Path
) -> None:
    """Texts are no longer than its positions."""
    checkpoint = make(len(tokenizer.vocabulary))
    save_checkpoint(checkpoint, tokenizer, tmp_path)
    model = from_bert(tmp_path, tiny.source(), dimension=8, views=2)
    assert_starts_from(model, checkpoint)
    assert (model.config.text, model.config.views) == ("bert", 2)
    assert model.tokenizer is not None
    assert model.tokenizer.max_length == longest
    assert model.embed_texts(["dog " * 200, ""]).isfinite().all()


def assert_starts_from(model: VseModel, checkpoint: Any) -> None:
    assert model.text_encoder is not None
    expected = checkpoint.state_dict()
    for name, value in model.text_encoder.state_dict().items():
        assert torch.equal(value, expected[name]), name


def test_a_folder_with_only_a_word_list(tmp_path: Path) -> None:
    save_bert(tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    (tmp_path / "vocab.txt").write_text("\n".join(tiny.VOCABULARY), encoding="utf-8")
    model = from_bert(tmp_path, tiny.source(), dimension=8)
    assert model.tokenizer is not None
    expected = [tiny.VOCABULARY.index(t) for t in ("[CLS]", "run", "##ning", "dog", "[SEP]")]
    assert model.tokenizer.encode("Running dog") == expected


def test_unknown_options_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"unknown model options \['pooling'\]"):
        from_captions(CAPTIONS, tiny.source(), pooling="gpo")
    save_bert(tmp_path)
    for fixed in ("text_encoder", "vocabulary_size", "feature_dim", "text"):
        with pytest.raises(InputError, match=f"unknown model options \\['{fixed}'\\]"):
            from_bert(tmp_path, tiny.source(), **dict[str, Any]({fixed: "x"}))


def test_a_checkpoints_first_layers(minilm: Path) -> None:
    model = from_bert(minilm, tiny.source(), dimension=16, layers=2)
    assert model.text_encoder is not None
    kept = {name for name, _ in model.text_encoder.named_parameters() if "layer." in name}
    assert {name.split("layer.")[1].split(".")[0] for name in kept} == {"0", "1"}
    assert_starts_from(model, hf.AutoModel.from_pretrained(minilm))
    with pytest.raises(InputError, match="has 6 layers, 7 were requested"):
        from_bert(minilm, tiny.source(), dimension=16, layers=7)


# ---- batches, and the visual projection in training ----------------------------------------------

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


def test_an_image_without_regions_is_one_zero_vector() -> None:
    batch = collate_regions([tiny.image(0), tiny.image(2)])
    assert batch.lengths.tolist() == [1, 2]
    assert not batch.regions[0].any()
    assert collate_regions([tiny.image(0)]).regions.shape == (1, 1, 5)
    limited, whole = collate_regions(tiny.images(), 4), collate_regions(tiny.images())
    assert limited.lengths.tolist() == [3, 1, 4, 4]
    assert torch.equal(limited.regions, whole.regions[:, :4])
