from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close
from transformers import (
    BertForMaskedLM,
    BertModel,
    ElectraConfig,
    ElectraModel,
    GPT2Config,
    GPT2Model,
    PreTrainedModel,
    RobertaConfig,
    RobertaModel,
    ViTConfig,
    ViTModel,
)

from sparta.errors import InputError
from sparta.tokenizer import WordPieceTokenizer
from sparta.visualsparta.collate import ImageCollator
from sparta.visualsparta.init_bert import from_bert, from_config
from sparta.visualsparta.model import VisualSparta
from tests import tiny
from tests.sparta.visualsparta.bert_checkpoint import SIZES, byte_pairs


def save(model: PreTrainedModel, tokenizer: WordPieceTokenizer, folder: Path) -> Path:
    model.save_pretrained(folder)
    tokenizer.save(folder)
    return folder


@pytest.fixture
def bert(tmp_path: Path) -> Path:
    return save(BertModel(tiny.encoder()), tiny.tokenizer(), tmp_path / "bert")


def assert_whole(model: VisualSparta, source: PreTrainedModel) -> None:
    """Encoder and query embedding are the checkpoint's, and images can be scored."""
    expected = source.state_dict()
    for name, value in model.encoder.state_dict().items():
        assert torch.equal(value, expected[name]), name
    words: Tensor = expected["embeddings.word_embeddings.weight"]
    assert torch.equal(model.query_embedding.weight, words)
    assert model.tokenizer is not None
    batch = ImageCollator(model.tokenizer, 50, 30)(tiny.images())
    scores = model.eval().term_scores(batch).scores
    alone = ImageCollator(model.tokenizer, 50, 30)(tiny.images()[:1])
    assert scores.any()
    assert_close(model.term_scores(alone).scores[0], scores[0], rtol=1e-4, atol=1e-5)


def test_encoder_and_query_embedding_start_from_the_checkpoint(bert: Path) -> None:
    model = from_bert(bert, tiny.source(), region_dropout=0.3)
    assert_whole(model, BertModel.from_pretrained(bert))
    assert (model.config.feature_dim, model.config.region_dropout) == (tiny.DIMENSION, 0.3)
    assert model.config.feature_source is not None
    assert model.config.feature_source["weights"] == "abc"
    assert model.config.label_segment == 1
    assert model.tokenizer is not None
    assert model.tokenizer.vocabulary == tiny.VOCABULARY
    assert model.indexable.tolist() == [i >= 6 for i in range(len(tiny.VOCABULARY))]
    assert model.encoder.pooler is None
    words = model.encoder.embeddings.word_embeddings.weight
    assert model.query_embedding.weight is not words  # a copy, not the encoder's own


def test_tied_model_starts_from_the_checkpoint_too(bert: Path) -> None:
    model = from_bert(bert, tiny.source(), tie_query_embedding=True)
    assert model.query_embedding.weight is model.encoder.embeddings.word_embeddings.weight
    assert_whole(model, BertModel.from_pretrained(bert))


def test_checkpoints_of_other_heads_serve(tmp_path: Path) -> None:
    masked = BertForMaskedLM(tiny.encoder())
    model = from_bert(save(masked, tiny.tokenizer(), tmp_path), tiny.source())
    assert_whole(model, masked.bert)


def test_only_the_first_layers_are_kept(bert: Path) -> None:
    whole = BertModel.from_pretrained(bert).state_dict()
    model = from_bert(bert, tiny.source(), layers=1)
    assert len(model.encoder.encoder.layer) == model.encoder.config.num_hidden_layers == 1
    name = "encoder.layer.0.output.dense.weight"
    assert torch.equal(model.encoder.state_dict()[name], whole[name])
    with pytest.raises(InputError, match="has 2 layers, 3 were requested"):
        from_bert(bert, tiny.source(), layers=3)


def test_no_path_of_the_training_machine_is_saved(bert: Path, tmp_path: Path) -> None:
    from_bert(bert, tiny.source()).save_pretrained(tmp_path / "model")
    saved = tmp_path / "model" / "config.json"
    again = VisualSparta.from_pretrained(saved.parent)
    again.save_pretrained(tmp_path / "again")
    for path in (saved, tmp_path / "again" / "config.json"):
        assert str(tmp_path) not in path.read_text()


def test_electra_like(tmp_path: Path) -> None:
    config = ElectraConfig(vocab_size=25, embedding_size=32, initializer_range=0.4, **SIZES)
    electra = ElectraModel(config)
    model = from_bert(save(electra, tiny.tokenizer(), tmp_path), tiny.source())
    assert_whole(model, electra)


def test_roberta_like_with_one_segment(tmp_path: Path) -> None:
    tokenizer = byte_pairs()
    config = RobertaConfig(
        vocab_size=len(tokenizer.vocabulary), type_vocab_size=1, initializer_range=0.4, **SIZES
    )
    roberta = RobertaModel(config)
    model = from_bert(save(roberta, tokenizer, tmp_path / "roberta"), tiny.source())
    assert model.config.label_segment == 0
    assert_whole(model, roberta)
    assert not model.indexable[:5].any()
    assert model.indexable[5:].all()
    model.save_pretrained(tmp_path / "model")
    queries = VisualSparta.from_pretrained(tmp_path / "model").encode_queries(["a dog", "the dog"])
    assert queries.counts.sum() > 0


@pytest.mark.parametrize(
    "stranger",
    [
        ViTModel(ViTConfig(hidden_size=32, num_hidden_layers=1, num_attention_heads=2)),
        GPT2Model(GPT2Config(vocab_size=25, n_embd=32, n_layer=1, n_head=2)),
    ],
    ids=["vit", "gpt2"],
)
def test_other_architectures_are_refused(stranger: PreTrainedModel, tmp_path: Path) -> None:
    save(stranger, tiny.tokenizer(), tmp_path)
    with pytest.raises(InputError, match=f"{type(stranger).__name__}.* is not BERT-like"):
        from_bert(tmp_path, tiny.source())


def test_narrower_token_embeddings_are_refused(tmp_path: Path) -> None:
    narrow = ElectraModel(ElectraConfig(vocab_size=25, embedding_size=16, **SIZES))
    with pytest.raises(InputError, match="token embeddings have 16 numbers, hidden states 32"):
        from_bert(save(narrow, tiny.tokenizer(), tmp_path), tiny.source())


def test_another_models_tokenizer_is_refused(bert: Path) -> None:
    byte_pairs().save(bert)
    with pytest.raises(InputError, match=r"25 token embeddings, the tokenizer .* terms"):
        from_bert(bert, tiny.source())


def test_a_missing_tokenizer_or_checkpoint_is_named(bert: Path, tmp_path: Path) -> None:
    (bert / "tokenizer.json").unlink()
    with pytest.raises(OSError, match=r"tokenizer\.json"):
        from_bert(bert, tiny.source())
    with pytest.raises(OSError, match="nowhere"):
        from_bert(tmp_path / "nowhere", tiny.source())


@pytest.mark.parametrize("option", ["use_label", "feature_dim", "hidden_size"])
def test_unknown_options_are_refused(option: str) -> None:
    with pytest.raises(InputError, match=rf"unknown model options \['{option}'\]"):
        from_config(tiny.encoder(), tiny.tokenizer(), tiny.source(), **{option: 1})
