"""VisualSparta from BERT's and Oscar's checkpoints, and Oscar's forward pass written out slowly."""

import json
import os
import pickle
import re
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from safetensors.torch import save_file
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from torch import Tensor
from torch.testing import assert_close

from sparta.errors import InputError
from sparta.tokenizer import TermTokenizer
from sparta.visualsparta.batch import ImageBatch, ImagePadder
from sparta.visualsparta.init import PICKLED, SAFE, from_bert, from_oscar
from sparta.visualsparta.model import VisualSparta
from tests import tiny
from tests.sparta.vse.models import save_bert
from tests.sparta.vse.published import affine, bert_embeddings, bert_layers, layer_norm

SIZES: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
SIZES |= {"intermediate_size": 37, "max_position_embeddings": 40}


WORD_EMBEDDINGS = "embeddings.word_embeddings.weight"


def byte_pairs() -> TermTokenizer:
    """As RoBERTa has: special tokens <s>, <pad>, </s>, <unk>, <mask>, words with a marked space."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    trainer = trainers.BpeTrainer(vocab_size=60, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator([" ".join(tiny.WORDS)] * 3, trainer)
    return TermTokenizer(tokenizer)


def save_checkpoint(model: hf.PreTrainedModel, tokenizer: TermTokenizer, folder: Path) -> Path:
    model.save_pretrained(folder)
    tokenizer.save(folder)
    return folder


def assert_whole(model: VisualSparta, source: hf.PreTrainedModel) -> None:
    """Encoder and query embedding are the checkpoint's, and images can be scored."""
    expected = source.state_dict()
    expected[WORD_EMBEDDINGS] = expected[WORD_EMBEDDINGS][: model.config.encoder["vocab_size"]]
    for name, value in model.encoder.state_dict().items():
        assert torch.equal(value, expected[name]), name
    assert torch.equal(model.query_embedding.weight, expected[WORD_EMBEDDINGS])
    assert model.tokenizer is not None
    batch = ImagePadder(model.tokenizer, 50, 30)(tiny.images())
    scores = model.eval().term_scores(batch).scores
    alone = ImagePadder(model.tokenizer, 50, 30)(tiny.images()[:1])
    assert scores.any()
    assert_close(model.term_scores(alone).scores[0], scores[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", [hf.BertModel, hf.RobertaModel, hf.ElectraModel])
@pytest.mark.parametrize("spare", [0, 39])
def test_encoder_and_query_embedding_start_from_the_checkpoint(
    kind: Any, spare: int, tmp_path: Path
) -> None:
    """Some checkpoints pad the number of their token embeddings; RoBERTa has one segment."""
    tokenizer = byte_pairs() if kind is hf.RobertaModel else tiny.tokenizer()
    size, segments = len(tokenizer.vocabulary), 1 if kind is hf.RobertaModel else 2
    config = kind.config_class(
        vocab_size=size + spare,
        type_vocab_size=segments,
        initializer_range=0.4,
        **SIZES | {"embedding_size": 32},
    )
    checkpoint = kind(config)
    folder = save_checkpoint(checkpoint, tokenizer, tmp_path / "checkpoint")
    model = from_bert(folder, tiny.source(), region_dropout=0.3)
    assert (model.config.feature_dim, model.config.region_dropout) == (tiny.DIMENSION, 0.3)
    assert model.config.feature_source is not None
    assert model.config.feature_source["weights"] == "abc"
    assert (model.config.label_segment, model.config.encoder["vocab_size"]) == (segments - 1, size)
    assert model.tokenizer is not None
    assert model.tokenizer.vocabulary == tokenizer.vocabulary
    special = 5 if kind is hf.RobertaModel else 6
    words = [i >= special and term != "Ġ" for i, term in enumerate(tokenizer.vocabulary)]
    assert model.indexable.tolist() == words  # Ġ is the mark of a word, alone
    words = model.encoder.embeddings.word_embeddings.weight
    assert model.query_embedding.weight is not words  # a copy, not the encoder's own
    model.save_pretrained(tmp_path / "model")
    loaded = VisualSparta.from_pretrained(tmp_path / "model")
    for one in (model, loaded):
        assert_whole(one, checkpoint)
    assert loaded.encode_queries(["a dog", "the dog"]).counts.sum() > 0
    loaded.save_pretrained(tmp_path / "again")
    for name in ("model", "again"):
        assert str(tmp_path) not in (tmp_path / name / "config.json").read_text()


VIT = hf.ViTConfig(hidden_size=32, num_hidden_layers=1, num_attention_heads=2)
GPT2 = hf.GPT2Config(vocab_size=25, n_embd=32, n_layer=1, n_head=2)
T5 = hf.T5Config(d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2, vocab_size=9)
NARROW = hf.ElectraConfig(vocab_size=25, embedding_size=16, **SIZES)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (VIT, "is of a vit, which is no BERT-like text encoder"),
        (GPT2, r"\(GPT2Model\) is not BERT-like: it lacks word embeddings"),
        (T5, "is of a t5, which is no BERT-like text encoder"),
        (NARROW, "token embeddings have 16 numbers, hidden states 32"),
        (hf.BertConfig(vocab_size=9, **SIZES), "has 9 token embeddings, its tokenizer 25 entries"),
    ],
)
def test_a_checkpoint_that_does_not_fit_is_refused(
    config: hf.PreTrainedConfig, message: str, tmp_path: Path
) -> None:
    save_checkpoint(hf.AutoModel.from_config(config), tiny.tokenizer(), tmp_path)
    with pytest.raises(InputError, match=message):
        from_bert(tmp_path, tiny.source())


def test_what_is_missing_or_unknown_is_named(tmp_path: Path) -> None:
    bert = save_bert(tmp_path / "bert")
    for option in ("use_label", "feature_dim", "hidden_size"):
        with pytest.raises(InputError, match=rf"unknown model options \['{option}'\]"):
            from_bert(bert, tiny.source(), **dict[str, Any]({option: 1}))
    (bert / "tokenizer.json").unlink()
    with pytest.raises(InputError, match=r"has no tokenizer\.json: choose a checkpoint that has"):
        from_bert(bert, tiny.source())
    with pytest.raises(InputError, match="nowhere does not exist"):
        from_bert(tmp_path / "nowhere", tiny.source())


WIDTH = tiny.DIMENSION + 6
HEADS = 4


def oscar_config(**fields: Any) -> dict[str, Any]:
    """A BERT's fields, others of its time, and those of images."""
    bert = SIZES | {"vocab_size": len(tiny.VOCABULARY), "num_attention_heads": HEADS}
    bert |= {"type_vocab_size": 2, "layer_norm_eps": 1e-12, "hidden_act": "gelu"}
    bert |= {"attention_probs_dropout_prob": 0.1, "hidden_dropout_prob": 0.1}
    others: dict[str, Any] = {"pruned_heads": {}, "finetuning_task": None, "num_labels": 2}
    images = {"img_feature_dim": WIDTH, "img_feature_type": "faster_r-cnn", "loss_type": "sfmx"}
    return {**bert, **others, **images, **fields}


def oscar_weights(norm: bool, width: int = WIDTH) -> dict[str, Tensor]:
    """All that a file may hold, heads too; `norm`: with the image LayerNorm."""
    torch.manual_seed(5)
    fields = {k: v for k, v in oscar_config().items() if k in hf.BertConfig().to_dict()}
    shapes = {
        k: v.shape for k, v in hf.BertForMaskedLM(hf.BertConfig(**fields)).state_dict().items()
    }
    shapes |= {"bert.img_embedding.weight": torch.Size([32, width])}
    shapes |= {"bert.img_embedding.bias": torch.Size([32])}
    shapes |= {"bert.pooler.dense.weight": torch.Size([32, 32])}
    shapes |= {"classifier.weight": torch.Size([2, 32])}
    shapes |= {"cls.seq_relationship.weight": torch.Size([3, 32])}
    if norm:
        shapes |= {f"bert.LayerNorm.{part}": torch.Size([32]) for part in ("weight", "bias")}
    return {key: 0.4 * torch.randn(shape) for key, shape in shapes.items()}


def write_oscar(folder: Path, state: dict[str, Tensor], **fields: Any) -> Path:
    """A folder of weights, configuration with these fields, and `tiny`'s vocabulary."""
    folder.mkdir(exist_ok=True)
    torch.save(state, folder / PICKLED)
    (folder / "config.json").write_text(json.dumps(oscar_config(**fields)))
    (folder / "vocab.txt").write_text("\n".join(tiny.VOCABULARY) + "\n", encoding="utf-8")
    return folder


def slow_oscar(state: dict[str, Tensor], batch: ImageBatch, i: int) -> Tensor:
    """Image i of a padded batch, as ours stands: [n + k, h], regions first.

    Oscar reads the text first, the regions behind it, and masks with -10000.
    """
    state = {key: value.double() for key, value in state.items()}
    text = bert_embeddings(state, batch.label_ids[i].tolist(), segment=1)
    given = torch.cat([batch.regions[i].double(), batch.locations[i].double()], dim=1)
    regions = affine(state, "bert.img_embedding", given)
    if "bert.LayerNorm.weight" in state:
        regions = layer_norm(state, "bert.LayerNorm", regions)
    mask = torch.cat([batch.label_mask[i], batch.region_mask[i]])
    rows = bert_layers(state, torch.cat([text, regions]), HEADS, mask)
    return torch.cat([rows[len(text) :], rows[: len(text)]])


def assert_like_oscar(model: VisualSparta, state: dict[str, Tensor]) -> None:
    batch = tiny.batch()
    assert not batch.region_mask.all() and not batch.label_mask.all()
    with torch.no_grad():
        hidden, mask, *_ = model.eval().contextualise(batch)
    for i in range(len(batch)):
        expected = slow_oscar(state, batch, i).float()
        assert_close(hidden[i][mask[i]], expected[mask[i]], rtol=1e-5, atol=1e-5)
    words = state["bert.embeddings.word_embeddings.weight"]
    assert torch.equal(model.query_embedding.weight, words)


@pytest.mark.parametrize("norm", [False, True], ids=["plain", "image LayerNorm"])
def test_the_transformer_is_oscars(norm: bool, tmp_path: Path) -> None:
    state = oscar_weights(norm)
    # What config.json says of the normalisation does not count: the weights do.
    folder = write_oscar(tmp_path / "oscar", state, use_img_layernorm=int(not norm))
    (folder / "training_args.bin").write_bytes(b"no pickle at all")
    model = from_oscar(folder, tiny.source())
    assert model.config.region_layer_norm == norm
    assert_like_oscar(model, state)
    assert (model.config.feature_source or {})["weights"] == "abc"
    assert model.config.label_segment == 1
    assert model.tokenizer is not None
    assert model.tokenizer.vocabulary == tiny.VOCABULARY
    assert model.indexable.tolist() == [i >= 6 for i in range(len(tiny.VOCABULARY))]
    words = model.encoder.embeddings.word_embeddings.weight
    assert model.query_embedding.weight is not words
    model.save_pretrained(tmp_path / "saved")
    assert_like_oscar(VisualSparta.from_pretrained(tmp_path / "saved"), state)


def test_a_normalisation_keeps_its_own_epsilon(tmp_path: Path) -> None:
    state = oscar_weights(norm=True)
    for key in ("bert.img_embedding.weight", "bert.img_embedding.bias"):
        state[key] *= 1e-3  # so that it matters
    assert_like_oscar(from_oscar(write_oscar(tmp_path, state)), state)
    other = from_oscar(write_oscar(tmp_path, state, img_layer_norm_eps=1e-2))
    with pytest.raises(AssertionError):
        assert_like_oscar(other, state)


@pytest.mark.parametrize("form", ["older names", "no prefix", "safetensors", "half", "padded"])
def test_the_same_weights_in_other_forms(form: str, tmp_path: Path) -> None:
    state, spare = oscar_weights(norm=True), 0
    folder = write_oscar(tmp_path, {})
    written = dict(state)
    if form == "older names":
        new = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
        for ours, theirs in new.items():
            written = {key.replace(ours, theirs): value for key, value in written.items()}
        assert sum("gamma" in key for key in written) == 7
    elif form == "no prefix":
        written = {key.removeprefix("bert."): value for key, value in state.items()}
        written["embeddings.position_ids"] = torch.arange(40)[None]
    elif form == "half":
        written = {key: value.half() for key, value in state.items()}
        state = {key: value.float() for key, value in written.items()}
    elif form == "padded":
        spare = 7
        words = state[f"bert.{WORD_EMBEDDINGS}"]
        written[f"bert.{WORD_EMBEDDINGS}"] = torch.cat([words, torch.zeros(spare, 32)])
    if form == "safetensors":
        save_file(written, folder / SAFE)
    else:
        write_oscar(tmp_path, written, vocab_size=len(tiny.VOCABULARY) + spare)
    model = from_oscar(folder, tiny.source())
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert_like_oscar(model, state)


def test_options_are_the_models(tmp_path: Path) -> None:
    folder = write_oscar(tmp_path, oscar_weights(norm=False))
    model = from_oscar(folder, tiny.source(), max_regions=3, tie_query_embedding=True)
    assert model.config.max_regions == 3
    assert model.query_embedding.weight is model.encoder.embeddings.word_embeddings.weight
    first = from_oscar(folder, tiny.source(), layers=1)
    assert len(first.encoder.encoder.layer) == first.encoder.config.num_hidden_layers == 1
    for name, value in first.encoder.state_dict().items():
        assert torch.equal(value, model.encoder.state_dict()[name]), name
    with pytest.raises(InputError, match="has 2 layers, 3 were requested"):
        from_oscar(folder, tiny.source(), layers=3)
    with pytest.raises(InputError, match=r"unknown model options \['max_region'\]"):
        from_oscar(folder, tiny.source(), max_region=3)
    for option in ("use_locations", "region_layer_norm"):
        with pytest.raises(InputError, match=f"its weights decide {option}"):
            from_oscar(folder, tiny.source(), **{option: False})


def test_the_tokenizer_is_berts(tmp_path: Path) -> None:
    path = write_oscar(tmp_path, {}) / "vocab.txt"
    ours, theirs = TermTokenizer.from_vocabulary(path), hf.BertTokenizer(vocab=str(path))
    for text in ("A RED ball.", "runs running", "thé dög", "by\u2028sea", "[MASK] hats 犬 man"):
        ids = theirs(text, add_special_tokens=False)["input_ids"]
        assert ours.encode_ids(text) == [i for i in ids if i >= 5]


# ---- what is refused ----------------------------------------------------------------------------


def refused(folder: Path, match: str, **options: Any) -> None:
    with pytest.raises(InputError, match=match):
        from_oscar(folder, **{"source": tiny.source(), **options})


def test_missing_left_over_and_misshapen_weights_are_listed(tmp_path: Path) -> None:
    state = oscar_weights(norm=True)
    key, query = "bert.encoder.layer.1.output.dense.bias", "encoder.layer.0.attention.self.query"
    del state[key], state["bert.LayerNorm.bias"]
    state["bert.code_embeddings.weight"] = state["decoder.weight"] = torch.zeros(2)
    state[f"bert.{query}.weight"] = torch.zeros(32, 31)
    refused(
        write_oscar(tmp_path, state),
        rf"missing: bert\.LayerNorm\.bias, {key}; "
        r"unexpected: bert\.code_embeddings\.weight, bert\.decoder\.weight; "
        rf"of another shape: bert\.{query}\.weight \[32, 31\] instead of \[32, 32\]",
    )
    state = oscar_weights(norm=False)
    state["bert.embeddings.LayerNorm.gamma"] = torch.ones(32)
    refused(write_oscar(tmp_path, state), r"bert\.embeddings\.LayerNorm\.weight twice")


class Harmful:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self.folder,)

    def __init__(self, folder: str) -> None:
        self.folder = folder


@pytest.mark.parametrize("zipped", [True, False])
def test_code_in_a_pickle_is_not_run(zipped: bool, tmp_path: Path) -> None:
    trap = tmp_path / "made by the pickle"
    folder = write_oscar(tmp_path / "oscar", {})
    content: Any = {**oscar_weights(norm=False), "bert.x": Harmful(str(trap))}
    torch.save(content, folder / PICKLED, _use_new_zipfile_serialization=zipped)
    refused(folder, r"pytorch_model\.bin is damaged, or holds more than tensors")
    assert not trap.exists()
    # The trap is one.
    torch.load(folder / PICKLED, weights_only=False)
    assert trap.exists()


def changed_config(**fields: Any) -> bytes:
    return json.dumps(oscar_config(**fields)).encode()


VOCABULARY = "\n".join(tiny.VOCABULARY)


@pytest.mark.parametrize(
    ("file", "content", "match"),
    [
        (PICKLED, None, "holds neither pytorch_model.bin nor model.safetensors"),
        (PICKLED, b"", "pytorch_model.bin is damaged, or"),
        (PICKLED, b"PK\x03\x04 cut", "pytorch_model.bin is damaged, or"),
        (PICKLED, pickle.dumps({"a": 1}, 2), "pytorch_model.bin"),
        (SAFE, b"rubbish", "model.safetensors is damaged, or no file of weights"),
        ("config.json", None, "config.json is missing"),
        ("config.json", b"{", "config.json: JSON: "),
        ("config.json", changed_config(hidden_size="32"), "config.json: hidden_size: "),
        ("config.json", changed_config(img_feature_dim=6), "config.json: img_feature_dim: "),
        ("config.json", changed_config(num_attention_heads=5), "no multiple of num_attention"),
        ("config.json", changed_config(img_feature_type="dis_code_t"), "img_feature_type: dis_"),
        ("config.json", changed_config(img_feature_dim=14), "14 numbers, 8 and a location of 6; t"),
        ("vocab.txt", None, "vocab.txt is missing"),
        ("vocab.txt", (VOCABULARY + "\ndog").encode(), "'dog' is in the vocabulary twice"),
        ("vocab.txt", VOCABULARY.replace("[SEP]", "sep").encode(), "lacks [SEP]"),
        ("vocab.txt", (VOCABULARY + "\nmore").encode(), "25 token embeddings, the tokenizer 26"),
    ],
)
def test_a_damaged_file_is_named(
    file: str, content: bytes | None, match: str, tmp_path: Path
) -> None:
    folder = write_oscar(tmp_path, oscar_weights(norm=False))
    if content is None:
        (folder / file).unlink()
    else:
        (folder / file).write_bytes(content)
    refused(folder, re.escape(match))
