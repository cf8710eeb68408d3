"""Checkpoints as VSE∞'s, VSE+2AD's and MV-VSE's published code saves them, and what it computes.

The weights are random, the arithmetic is written out from the published definitions, set by set
and step by step, with none of the project's modules.
"""

import argparse
import json
import math
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor
from transformers import BertConfig, BertModel

from tests import tiny

FEATURES, DIMENSION, WORD_DIM, PLACE = 5, 8, 6, 32
WORDS = ["<pad>", "<start>", "<end>", "<unk>", "a", "brown", "dog", "man", "'s", "hat"]
Weights = dict[str, Tensor]

OPTIONS = argparse.Namespace(
    data_name="coco", learning_rate=5e-4, no_imgnorm=False, device=torch.device("cuda")
)


def random(*shape: int) -> Tensor:
    return 0.5 * torch.randn(*shape)


def linear(name: str, inputs: int, outputs: int, bias: bool = True) -> Weights:
    made = {f"{name}.weight": random(outputs, inputs)}
    return {**made, f"{name}.bias": random(outputs)} if bias else made


def norm(name: str, width: int) -> Weights:
    return {
        f"{name}.weight": random(width),
        f"{name}.bias": random(width),
        f"{name}.running_mean": random(width),
        f"{name}.running_var": torch.rand(width) + 0.5,
        f"{name}.num_batches_tracked": torch.tensor(7),
    }


def gru(name: str, inputs: int, width: int, directions: int = 2) -> Weights:
    return {
        f"{name}.{kind}_l0{suffix}": random(*shape)
        for suffix in ("", "_reverse")[:directions]
        for kind, shape in (
            ("weight_ih", (3 * width, inputs)),
            ("weight_hh", (3 * width, width)),
            ("bias_ih", (3 * width,)),
            ("bias_hh", (3 * width,)),
        )
    }


def gpo(name: str) -> Weights:
    return {**gru(f"{name}.gru", PLACE, PLACE), **linear(f"{name}.linear", PLACE, 1, bias=False)}


def ap(name: str) -> Weights:
    return {
        **linear(f"{name}.linear", DIMENSION, DIMENSION),
        **linear(f"{name}.balance", DIMENSION, 1),
    }


def mlp() -> Weights:
    return {
        **linear("mlp.layers.0", FEATURES, DIMENSION // 2),
        **linear("mlp.layers.1", DIMENSION // 2, DIMENSION),
        **norm("mlp.bns.0", DIMENSION // 2),
        **norm("mlp.bns.1", DIMENSION),  # saved and never used
    }


def bert(folder: Path) -> Weights:
    """A BERT's weights with those of its pooler; its configuration and tokenizer in `folder`."""
    config: BertConfig = tiny.encoder()
    config.save_pretrained(folder)
    tiny.tokenizer().save(folder)
    state = BertModel(config).state_dict()
    weights = {f"bert.{key}": value + 0.2 * random(*value.shape) for key, value in state.items()}
    return {**weights, "bert.embeddings.position_ids": torch.arange(40)[None]}


def embedding(rows: int) -> Weights:
    return {"embed.weight": random(rows, WORD_DIM)}


def encoders(method: str, kind: str, folder: Path) -> list[Weights]:
    """Weights of the image and of the text encoder.

    Args:
        method: "vse-inf", "vse-2ad" or "mv-vse".
        kind: "words" or "bert".
        folder: gets the vocabulary, or the BERT's configuration and tokenizer.
    """
    torch.manual_seed(2)
    folder.mkdir(parents=True, exist_ok=True)
    word2idx = {word: number for number, word in enumerate(WORDS)}
    named = {"word2idx": word2idx, "idx2word": dict(enumerate(WORDS)), "idx": len(WORDS)}
    (folder / "vocabulary.json").write_text(json.dumps(named))
    if method == "mv-vse":
        views = [linear(f"fc_list.{k}", FEATURES, DIMENSION) for k in range(3)]
        text = {**embedding(len(WORDS)), **gru("rnn", WORD_DIM, DIMENSION, directions=1)}
        return [{key: value for view in views for key, value in view.items()}, text]
    pooling, projection = {
        "vse-inf": (lambda: gpo("gpool"), "linear"),
        "vse-2ad": (lambda: ap("pool"), "fc"),
    }[method]
    image = {**linear("fc", FEATURES, DIMENSION), **mlp(), **pooling()}
    if kind == "bert":
        return [image, {**bert(folder), **linear(projection, 32, DIMENSION), **pooling()}]
    words = {**embedding(len(WORDS) + 1), **gru("rnn", WORD_DIM, DIMENSION)}  # with <mask>
    return [image, {**words, **pooling()}]


def save(path: Path, method: str, parts: list[Weights], parallel: bool = False) -> Path:
    """Write a checkpoint as the method's `train.py` does, from within a DataParallel or not."""
    inside = "module." if parallel else ""
    named = [{inside + key: value for key, value in part.items()} for part in parts]
    if method == "vse-2ad":
        whole = {
            encoder + key: value
            for encoder, part in zip(("img_enc.", "txt_enc."), named, strict=True)
            for key, value in part.items()
        }
        torch.save({"model": whole, "rsum": 500.0, "args": OPTIONS}, path)
    else:
        torch.save({"epoch": 3, "model": named, "best_rsum": 500.0, "opt": OPTIONS}, path)
    return path


# ---- the published forward pass -------------------------------------------------------------


def affine(weights: Weights, name: str, rows: Tensor) -> Tensor:
    found = rows @ weights[f"{name}.weight"].T
    return found + weights[f"{name}.bias"] if f"{name}.bias" in weights else found


def states(weights: Weights, name: str, inputs: Tensor, suffix: str = "") -> Tensor:
    """States [n, width] of one direction of a GRU over [n, d]; the reverse one's in text order."""
    w_i, w_h, b_i, b_h = (
        weights[f"{name}.{kind}_l0{suffix}"]
        for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    )
    state, found = torch.zeros(w_h.shape[1]), []
    for row in inputs.flip(0) if suffix else inputs:
        reset_i, update_i, new_i = (w_i @ row + b_i).chunk(3)
        reset_h, update_h, new_h = (w_h @ state + b_h).chunk(3)
        update = torch.sigmoid(update_i + update_h)
        new = torch.tanh(new_i + torch.sigmoid(reset_i + reset_h) * new_h)
        state = (1 - update) * new + update * state
        found.append(state)
    return torch.stack(found[::-1] if suffix else found)


def both_ways(weights: Weights, name: str, inputs: Tensor) -> Tensor:
    return (states(weights, name, inputs) + states(weights, name, inputs, "_reverse")) / 2


def gpo_shares(weights: Weights, n: int, first: int = 0, temperature: float = 0.1) -> Tensor:
    """GPO's equations 3 to 5: the weights [n, 1] of n sorted values, counted from `first`."""
    places = torch.zeros(n, PLACE)
    for row in range(n):
        for column in range(0, PLACE, 2):
            angle = (first + row) / 10000 ** (column / PLACE)
            places[row, column] = math.sin(angle)
            places[row, column + 1] = math.cos(angle)
    scores = affine(weights, "gpool.linear", both_ways(weights, "gpool.gru", places))
    return torch.softmax(scores / temperature, dim=0)


def pool_gpo(weights: Weights, rows: Tensor) -> Tensor:
    """Sorted values weighted by their position, counted from 0, at the temperature 0.1."""
    return (rows.sort(dim=0, descending=True).values * gpo_shares(weights, len(rows))).sum(dim=0)


def pool_ap(weights: Weights, rows: Tensor, width: int) -> Tensor:
    """Both levels and their balance; padding up to `width` takes its share of the token level."""
    embedded = (rows * torch.softmax(rows, dim=0)).sum(dim=0)
    ranked = torch.zeros(width, rows.shape[1])
    ranked[: len(rows)] = rows.sort(dim=0, descending=True).values
    shares = torch.softmax(affine(weights, "pool.linear", ranked).clamp(min=0), dim=0)
    levels = torch.stack([(ranked * shares).sum(dim=0), embedded])
    return (levels * torch.softmax(affine(weights, "pool.balance", levels), dim=0)).sum(dim=0)


def pool(weights: Weights, rows: Tensor, width: int) -> Tensor:
    if "pool.balance.weight" in weights:
        return pool_ap(weights, rows, width)
    return pool_gpo(weights, rows)


def unit(vector: Tensor) -> Tensor:
    return vector / (vector.square().sum().sqrt() + 1e-8)


def embed_image(weights: Weights, rows: Tensor, width: int) -> Tensor:
    """One image's [n, d] → [K, D], in a batch whose largest image has `width` rows."""
    if "fc.weight" not in weights:
        views = [affine(weights, f"fc_list.{k}", rows).max(dim=0).values for k in range(3)]
        return torch.stack([unit(view) for view in views])
    projected = affine(weights, "fc", rows)
    if "mlp.layers.0.weight" in weights:
        hidden = affine(weights, "mlp.layers.0", rows)
        mean, variance, scale, shift = (
            weights[f"mlp.bns.0.{name}"]
            for name in ("running_mean", "running_var", "weight", "bias")
        )
        hidden = (hidden - mean) / torch.sqrt(variance + 1e-5) * scale + shift
        projected = projected + affine(weights, "mlp.layers.1", hidden.clamp(min=0))
    return unit(pool(weights, projected, width))[None]


def embed_text(weights: Weights, ids: Sequence[int], width: int) -> Tensor:
    """One text's framed ids → [D], in a batch whose longest text has `width` of them."""
    if "embed.weight" not in weights:
        projection = "linear" if "linear.weight" in weights else "fc"
        return unit(pool(weights, affine(weights, projection, read_bert(weights, ids)), width))
    words = weights["embed.weight"][list(ids)]
    if "rnn.weight_ih_l0_reverse" not in weights:
        return unit(states(weights, "rnn", words)[-1])
    return unit(pool(weights, both_ways(weights, "rnn", words), width))


def read_bert(weights: Weights, ids: Sequence[int]) -> Tensor:
    """Last hidden states of a BERT of two layers and two heads over one text."""
    return bert_layers(weights, bert_embeddings(weights, ids))


def bert_embeddings(weights: Weights, ids: Sequence[int], segment: int = 0) -> Tensor:
    """What goes into a BERT's first layer."""
    position = weights["bert.embeddings.position_embeddings.weight"][: len(ids)]
    hidden = weights["bert.embeddings.word_embeddings.weight"][list(ids)] + position
    hidden = hidden + weights["bert.embeddings.token_type_embeddings.weight"][segment]
    return layer_norm(weights, "bert.embeddings.LayerNorm", hidden)


def bert_layers(
    weights: Weights, hidden: Tensor, heads: int = 2, mask: Tensor | None = None
) -> Tensor:
    """Two layers over the rows [n, h] of one input; those that `mask` [n] has as 0 are not read."""
    unread = 0 if mask is None else (1 - mask.to(hidden.dtype)) * -10000.0
    for layer in ("bert.encoder.layer.0", "bert.encoder.layer.1"):
        queries, keys, values = (
            affine(weights, f"{layer}.attention.self.{part}", hidden).chunk(heads, dim=1)
            for part in ("query", "key", "value")
        )
        mixed = [
            torch.softmax(q @ k.T / math.sqrt(q.shape[1]) + unread, dim=1) @ v
            for q, k, v in zip(queries, keys, values, strict=True)
        ]
        attended = affine(weights, f"{layer}.attention.output.dense", torch.cat(mixed, dim=1))
        hidden = layer_norm(weights, f"{layer}.attention.output.LayerNorm", attended + hidden)
        inner = affine(weights, f"{layer}.intermediate.dense", hidden)
        inner = inner * (1 + torch.erf(inner / math.sqrt(2))) / 2
        outer = affine(weights, f"{layer}.output.dense", inner)
        hidden = layer_norm(weights, f"{layer}.output.LayerNorm", outer + hidden)
    return hidden


def layer_norm(weights: Weights, name: str, rows: Tensor) -> Tensor:
    centred = rows - rows.mean(dim=1, keepdim=True)
    deviation = torch.sqrt(centred.square().mean(dim=1, keepdim=True) + 1e-12)
    return centred / deviation * weights[f"{name}.weight"] + weights[f"{name}.bias"]
