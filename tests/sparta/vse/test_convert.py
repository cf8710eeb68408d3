import argparse
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.testing import assert_close
from typer.testing import CliRunner

from sparta.command_line import cli
from sparta.errors import InputError
from sparta.vse.batch import collate_regions, collate_texts
from sparta.vse.convert import convert_checkpoint
from sparta.vse.model import VseModel
from tests import tiny
from tests.sparta.vse import published

LAYOUTS = [
    ("vse-inf", "words"),
    ("vse-inf", "bert"),
    ("vse-2ad", "words"),
    ("vse-2ad", "bert"),
    ("mv-vse", "words"),
]
TEXTS = ["a brown dog", "A man's hat", "dog", "a zebra and a brown brown hat", ""]


def options(kind: str, folder: Path) -> dict[str, Any]:
    return {"text": str(folder)} if kind == "bert" else {"vocabulary": folder / "vocabulary.json"}


def saved(
    folder: Path, method: str, kind: str, parallel: bool = False
) -> tuple[Path, list[published.Weights]]:
    parts = published.encoders(method, kind, folder)
    return published.save(folder / "model_best.pth", method, parts, parallel), parts


def converted(folder: Path, method: str, kind: str, parallel: bool = False) -> VseModel:
    path, _ = saved(folder, method, kind, parallel)
    model, _ = convert_checkpoint(path, **options(kind, folder))
    return model


def padding(model: VseModel, widest: int, longest: int) -> tuple[int, int]:
    """Regions and tokens in the longest image and caption of a batch of the published evaluation.

    Only VSE+2AD's pooling depends on them.
    """
    return (36, 25) if model.config.text_pooling == "adpool" else (widest, longest)


def assert_computes_as_published(model: VseModel, parts: list[published.Weights]) -> None:
    assert model.tokenizer is not None
    ids = [model.tokenizer.encode(text) for text in TEXTS]
    images = collate_regions(tiny.images())
    texts = collate_texts(ids, model.tokenizer.pad_id)
    with torch.no_grad():
        found_images, found_texts = model.encode_images(images), model.encode_texts(texts)
    widest, longest = padding(model, images.regions.shape[1], texts.ids.shape[1])
    expected_images = [
        published.embed_image(parts[0], rows[:n].float(), widest)
        for rows, n in zip(images.regions, images.lengths.tolist(), strict=True)
    ]
    expected_texts = [published.embed_text(parts[1], row, longest) for row in ids]
    assert_close(found_images, torch.stack(expected_images), rtol=0, atol=1e-5)
    assert_close(found_texts, torch.stack(expected_texts), rtol=0, atol=1e-5)
    assert len({tuple(row) for row in found_texts.tolist()}) == len(TEXTS)


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize(("method", "kind"), LAYOUTS)
def test_converted_as_published(method: str, kind: str, parallel: bool, tmp_path: Path) -> None:
    path, parts = saved(tmp_path, method, kind, parallel)
    model, _ = convert_checkpoint(path, **options(kind, tmp_path))
    assert not model.training
    config = model.config
    assert (config.name, config.feature_dim, config.dimension) == (method, 5, 8)
    assert config.text == ("bert" if kind == "bert" else {"mv-vse": "gru"}.get(method, "bigru"))
    assert (config.visual, config.views) == (("grid", 3) if method == "mv-vse" else ("region", 1))
    assert config.feature_source is None
    assert_computes_as_published(model, parts)
    model.save_pretrained(tmp_path / "model")
    assert_computes_as_published(VseModel.from_pretrained(tmp_path / "model"), parts)


def test_spare_token_embeddings_are_left_out(tmp_path: Path) -> None:
    """Some BERTs pad their number."""
    path, parts = saved(tmp_path, "vse-inf", "bert")
    words = parts[1]["bert.embeddings.word_embeddings.weight"]
    config = json.loads((tmp_path / "config.json").read_text())
    for rows, vocabulary in ((64, 64), (64, 25), (9, 9), (9, 25), (2048, 2048)):
        (tmp_path / "config.json").write_text(json.dumps({**config, "vocab_size": vocabulary}))
        padded = torch.cat([words, torch.ones(2048, words.shape[1])])[:rows]
        text = {**parts[1], "bert.embeddings.word_embeddings.weight": padded}
        published.save(path, "vse-inf", [parts[0], text])
        if rows == 64:
            model, _ = convert_checkpoint(path, text=str(tmp_path))
            assert_computes_as_published(model, parts)
            continue
        with pytest.raises(InputError, match=r"word_embeddings|they belong to different models"):
            convert_checkpoint(path, text=str(tmp_path))


@pytest.mark.parametrize("kind", ["words", "bert"])
def test_a_caption_has_one_vector_whatever_its_batch(kind: str, tmp_path: Path) -> None:
    """Served alone or measured with others; a longer one than the published batches' as well."""
    model = converted(tmp_path, "vse-2ad", kind)
    texts = ["a brown dog", "a man " * 14, "dog"]
    together = model.embed_texts(texts)
    alone = torch.cat([model.embed_texts([text]) for text in texts])
    assert_close(together, alone, rtol=0, atol=1e-6)
    images = [tiny.image(n, ("dog",), seed=n) for n in (2, 36, 40)]
    with torch.no_grad():
        batch = model.encode_images(collate_regions(images))
        each = torch.cat([model.encode_images(collate_regions([image])) for image in images])
    assert_close(batch, each, rtol=0, atol=1e-6)


def test_a_model_that_follows_batches(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    model = converted(tmp_path, "vse-2ad", "words")
    model.save_pretrained(tmp_path / "fixed")
    VseModel.from_pretrained(tmp_path / "fixed")
    assert "ADPOOL" not in caplog.text
    config = json.loads((tmp_path / "fixed" / "config.json").read_text())
    config["text_pooling_options"] = {"variant": "code"}  # as converted by former versions
    (tmp_path / "fixed" / "config.json").write_text(json.dumps(config))
    VseModel.from_pretrained(tmp_path / "fixed")
    assert f"{tmp_path / 'fixed'}: ADPOOL's published code gives" in caplog.text


@pytest.mark.parametrize("method", ["vse-inf", "mv-vse"])
def test_words_are_split_as_the_vocabulary_was(method: str, tmp_path: Path) -> None:
    """By NLTK, in the folder that is saved as well."""
    model = converted(tmp_path, method, "words")
    model.save_pretrained(tmp_path / "model")
    for made in (model, VseModel.from_pretrained(tmp_path / "model")):
        assert made.config.words == "nltk" and made.tokenizer is not None
        assert made.tokenizer.unknown("a dog and/or a hat") == ["and/or"]
        assert made.tokenizer.encode("A man's hat") == [1, 4, 7, 8, 9, 2]
        assert made.tokenizer.mask_id == len(published.WORDS)


# ---- what is refused ----------------------------------------------------------------------------


def refused(folder: Path, parts: Any, **changes: Any) -> str:
    """The message about a checkpoint of VSE∞'s or of any other weights."""
    path = folder / "wrong.pth"
    torch.save({"model": parts, "opt": published.OPTIONS, **changes}, path)
    with pytest.raises(InputError) as caught:
        convert_checkpoint(path, **options("words", folder))
    assert str(path) in str(caught.value)
    return str(caught.value)


def test_every_missing_unexpected_or_misshaped_key_is_listed(tmp_path: Path) -> None:
    image, text = published.encoders("vse-inf", "words", tmp_path)
    del image["mlp.layers.1.bias"], text["gpool.linear.weight"]
    image |= {"extra.weight": torch.zeros(1), "mlp.bns.2.weight": torch.zeros(1)}
    text["rnn.bias_hh_l0"] = torch.zeros(7)
    text["rnn.weight_ih_l1"] = torch.zeros(24, 16)
    assert refused(tmp_path, [image, text]).endswith(
        "is not a whole vse-inf checkpoint: "
        "missing: img_enc.mlp.layers.1.bias, txt_enc.gpool.linear.weight; "
        "unexpected: img_enc.extra.weight, img_enc.mlp.bns.2.weight, txt_enc.rnn.weight_ih_l1; "
        "of another shape: txt_enc.rnn.bias_hh_l0 [7] instead of [24]"
    )


def test_what_is_no_whole_checkpoint_is_refused(tmp_path: Path) -> None:
    image, text = published.encoders("vse-inf", "words", tmp_path)
    assert "img_enc.fc.weight is missing" in refused(tmp_path, [text, image])
    assert "txt_enc.embed.weight is missing" in refused(tmp_path, [image, {}])
    assert "its weights are none" in refused(tmp_path, [{}, {}])
    assert "found ['model', 'opt']" in refused(tmp_path, [image])
    assert "not tensors: img_enc.fc.bias" in refused(tmp_path, [{**image, "fc.bias": 3}, text])
    flat = {**image, "fc.weight": torch.zeros(3)}
    assert "img_enc.fc.weight is [3], expected a matrix" in refused(tmp_path, [flat, text])
    for prefix in ("model.", "module.module."):
        images, texts = ({prefix + k: v for k, v in part.items()} for part in (image, text))
        assert "its weights are img_enc." in refused(tmp_path, [images, text])
        assert "txt_enc.embed" in refused(tmp_path, [image, texts])
    for name in ("opt", "args"):
        flags: dict[str, Any] = {name: argparse.Namespace(no_txtnorm=True)}
        assert "was trained with --no_txtnorm" in refused(tmp_path, [image, text], **flags)
    for content in (b"", b"hello\n world", b"\x80\x02garbage", b"PK\x03\x04"):
        (tmp_path / "a.pth").write_bytes(content)
        with pytest.raises(InputError, match=r"a\.pth is no checkpoint of torch's, or it is dama"):
            convert_checkpoint(tmp_path / "a.pth")


@pytest.mark.parametrize("inner", ["image_encoder", "img_proj"])
def test_a_vision_network_inside_is_refused_with_its_parts(inner: str, tmp_path: Path) -> None:
    image, text = published.encoders("vse-inf", "words", tmp_path)
    image = {f"module.{inner}.{key}": value for key, value in image.items()}
    image |= {f"module.backbone.{name}.0.weight": torch.zeros(3) for name in ("base", "top")}
    message = refused(tmp_path, [image, text])
    assert "contains a vision network (img_enc.backbone.* (2), img_enc." in message
    assert "only checkpoints that take features" in message


def word_ids(*words: str) -> str:
    return json.dumps({"word2idx": {word: number for number, word in enumerate(words)}})


@pytest.mark.parametrize(
    ("method", "content", "message"),
    [
        ("vse-inf", word_ids(*published.WORDS[:-1]), "has 9 words.*model_best.pth embeds 11: it"),
        ("mv-vse", word_ids(*published.WORDS, "zebra"), "has 11 words.*model_best.pth embeds 10"),
        ("vse-inf", "{", "expected a JSON object with word2idx"),
        ("vse-inf", '{"word2idx": {"a": 0, "b": 2}}', "ids are not 0 to 2"),
        ("vse-inf", '{"word2idx": {"a": 0}}', "has no pad token"),
        ("vse-inf", "\ufeff" + word_ids(*published.WORDS), None),  # a byte order mark is none
    ],
)
def test_another_vocabulary(method: str, content: str, message: str | None, tmp_path: Path) -> None:
    path, _ = saved(tmp_path, method, "words")
    other = tmp_path / "other.json"
    other.write_text(content, encoding="utf-8")
    if message is None:
        convert_checkpoint(path, vocabulary=other)
        return
    with pytest.raises(InputError, match=f"{re.escape(str(other))}.*{message}"):
        convert_checkpoint(path, vocabulary=other)


def test_what_the_text_side_needs_is_asked_for(tmp_path: Path) -> None:
    words, _ = saved(tmp_path / "words", "vse-inf", "words")
    bert, _ = saved(tmp_path / "bert", "vse-inf", "bert")
    for wrong in ({}, options("bert", tmp_path)):
        with pytest.raises(InputError, match="reads words: give --vocabulary"):
            convert_checkpoint(words, **wrong)
    for wrong in ({}, options("words", tmp_path / "words")):
        with pytest.raises(InputError, match="is a BERT: give --text"):
            convert_checkpoint(bert, **wrong)


class Shell:
    def __reduce__(self) -> Any:
        return os.mkdir, ("ran",)


def test_no_code_of_a_checkpoint_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    parts = published.encoders("vse-inf", "words", tmp_path)
    for hidden in (Shell(), argparse.Namespace(epochs=Shell())):
        assert "contains a posix.mkdir besides weights" in refused(tmp_path, parts, opt=hidden)
    assert not Path("ran").exists()


# ---- the command --------------------------------------------------------------------------------


def run(*arguments: Path | str) -> Any:
    return CliRunner().invoke(cli, ["convert", *map(str, arguments)])


def test_the_command_writes_a_model_folder(tmp_path: Path) -> None:
    path, parts = saved(tmp_path / "given", "vse-inf", "words")
    out, words = tmp_path / "model", tmp_path / "given" / "vocabulary.json"
    done = run(path, "--out", out, "--vocabulary", words, "--name", "published")
    assert done.exit_code == 0, done.output
    assert f"{out}: published, region features of 5 numbers, 11 words by a bigru" in done.output
    assert "Unused weights, left out: img_enc.mlp.bns.1.bias," in done.output
    model = VseModel.from_pretrained(out)
    assert model.config.name == "published"
    assert_computes_as_published(model, parts)
    again = run(path, "--out", out, "--vocabulary", words)
    assert isinstance(again.exception, InputError)
    assert "is not empty" in str(again.exception)
