from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf

from sparta.errors import InputError
from sparta.features.record import FeatureKind, FeatureSource
from sparta.tokenizer import WordPieceTokenizer
from sparta.vse.init import from_bert, from_captions
from sparta.vse.model import VseModel
from tests import tiny
from tests.sparta.visualsparta.test_init import SIZES, byte_pairs, save_checkpoint
from tests.sparta.vse.models import CAPTIONS, SMALL, save_bert


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


def electra(size: int) -> Any:
    return hf.ElectraModel(hf.ElectraConfig(vocab_size=size, embedding_size=16, **SIZES))


def roberta(size: int) -> Any:
    return hf.RobertaModel(hf.RobertaConfig(vocab_size=size, type_vocab_size=1, **SIZES))


@pytest.mark.parametrize(
    ("make", "tokenizer", "longest"),
    [
        (lambda _: hf.BertModel(tiny.encoder()), tiny.tokenizer(), 40),
        (electra, tiny.tokenizer(), 40),
        (roberta, byte_pairs(), 38),  # counts positions from behind padding
    ],
    ids=["bert", "electra", "roberta"],
)
def test_text_side_starts_from_the_checkpoint(
    make: Any, tokenizer: WordPieceTokenizer, longest: int, tmp_path: Path
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
