"""Making a table of substitutes: each untrained word's nearest trained terms, by a text encoder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import tokenizers
import torch
from torch import Tensor
from torch.nn.functional import normalize

from sparta.errors import InputError
from sparta.model_id import find_file
from sparta.progress import Progress, no_progress
from sparta.text_encoder import cut_embeddings, load_text_encoder
from sparta.visualsparta.model import VisualSparta, pad_ids
from sparta.word_tables import Substitute

# Chosen on held-out training photos; see docs/results/negative.md.
PHRASE = "a photo of a {}"
FREQUENCY_WEIGHT = 0.05  # what a term ten times as frequent gains in similarity
MINIMUM_FREQUENCY = 3  # training captions that contain a substitute
MINIMUM_SIMILARITY = 0.5
CANDIDATES = 3  # an index may lack the first

SHORTEST_WORD = 3  # letters
BATCH = 256  # words per pass of the encoder
CHUNK = 2048  # words compared with all terms at once


class WordEncoder:
    """Embeds words by a BERT-like text encoder: the mean of its last states for a short phrase."""

    def __init__(self, name: str | Path) -> None:
        if (file := find_file(name, "tokenizer.json")) is None:
            raise InputError(f"--encoder {name} has no tokenizer.json: choose one that has")
        self._encoder = load_text_encoder(name).eval()
        self._tokenizer = tokenizers.Tokenizer.from_file(str(file))
        self._tokenizer.no_padding()
        cut_embeddings(self._encoder, self._tokenizer.get_vocab_size(), f"--encoder {name}")

    @torch.inference_mode()
    def encode(self, words: list[str], progress: Progress = no_progress) -> Tensor:
        """[W, D] float32 unit vectors, the words' common mean subtracted."""
        parts = []
        for start in range(0, len(words), BATCH):
            parts.append(self._encode_batch(words[start : start + BATCH]))
            progress("embed", min(start + BATCH, len(words)), len(words))
        vectors = torch.cat(parts)
        return normalize(vectors - vectors.mean(dim=0), dim=1)

    def _encode_batch(self, words: list[str]) -> Tensor:
        encodings = self._tokenizer.encode_batch([PHRASE.format(word) for word in words])
        ids, mask = pad_ids((encoding.ids for encoding in encodings), "cpu")
        hidden = self._encoder(input_ids=ids, attention_mask=mask.long()).last_hidden_state
        return normalize((hidden * mask[:, :, None]).sum(dim=1), dim=1)


def make_substitutes(
    model: VisualSparta, encoder: WordEncoder, progress: Progress = no_progress
) -> dict[str, tuple[Substitute, ...]]:
    """For every untrained word of a model's vocabulary, the nearest trained words.

    Among near terms frequent ones are preferred, which are trained better: they are ordered by
    cosine + 0.05 · log10(frequency), and rare ones are left out.

    Args:
        model: with its tokenizer.
        encoder: embeds the words.
        progress: of the stage "embed", in words.
    """
    assert model.tokenizer is not None
    words = {i: term for i, term in enumerate(model.tokenizer.vocabulary) if _is_word(term)}
    ids = torch.tensor(list(words))
    frequencies, untrained = model.term_frequencies[ids], ~model.trained_terms[ids]
    frequent = frequencies >= MINIMUM_FREQUENCY
    if not frequent.any():
        raise InputError(
            f"the model records no word that {MINIMUM_FREQUENCY} training captions contain: train "
            "it on more captions"
        )
    vectors = encoder.encode(list(words.values()), progress)
    terms = [words[i] for i in ids[frequent].tolist()]
    weights = FREQUENCY_WEIGHT * frequencies[frequent].log10()
    found = _nearest(vectors[untrained], vectors[frequent], weights, terms)
    pairs = zip([words[i] for i in ids[untrained].tolist()], found, strict=True)
    return {word: near for word, near in pairs if near}


def _is_word(term: str) -> bool:
    return term.isalpha() and len(term) >= SHORTEST_WORD


def _nearest(
    words: Tensor, terms: Tensor, weights: Tensor, names: list[str]
) -> Iterator[tuple[Substitute, ...]]:
    """The best terms of each word, without those that are not near."""
    for part in words.split(CHUNK):
        cosines = part @ terms.T
        best = (cosines + weights).topk(min(CANDIDATES, len(names))).indices
        for places, near in zip(best.tolist(), cosines.gather(1, best).tolist(), strict=True):
            yield tuple(
                Substitute(names[place], cosine)
                for place, cosine in zip(places, near, strict=True)
                if cosine >= MINIMUM_SIMILARITY
            )
