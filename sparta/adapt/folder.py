"""The folder of a model of term vectors: weights, tables of words, offsets."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers import PreTrainedConfig

from sparta.adapt.fit import Bags, TermVectors, Texts, Views
from sparta.features.record import FeatureSource
from sparta.json_values import Json
from sparta.tokenizer import TermTokenizer
from sparta.visualsparta.init import from_config
from sparta.visualsparta.model import VisualSparta
from sparta.visualsparta.offsets import OFFSETS, SAMPLE, TermOffsets
from sparta.word_tables import RARE_TERMS, SPELLING

PHOTOS = 10  # training photos whose captions have a term that is not rare


@dataclass(frozen=True)
class Fitted:
    """Term vectors with all that their model's folder is made of."""

    terms: TermVectors
    bags: Bags
    tokenizer: TermTokenizer
    texts: Texts  # what they were fitted on
    sentences: Sequence[str]  # the same as typed

    def save(
        self,
        folder: Path,
        head: PreTrainedConfig,
        source: FeatureSource,
        views: Views,
        weights: nn.Module | None = None,
        **options: Any,
    ) -> None:
        """Write the model, its tables and its offsets.

        Args:
            folder: of the model.
            head: configuration of the image head; its sizes are set here.
            source: of the features.
            views: photos, whose scores decide the largest impact.
            weights: of the image head; None for those of the term vectors' own.
            options: further fields of `VisualSpartaConfig`.
        """
        self._model(head, source, weights or self.terms.head, options).save_pretrained(folder)
        if self.texts.count.any():
            self._write_rare(folder)
        write_spelling(self.sentences, self.tokenizer, folder)
        if options.get("offset", "none") != "none":
            return  # photos that were not seen decide the offsets
        with torch.inference_mode():
            scores = self.terms.scores(views.features[0][:SAMPLE].float())
        none = np.zeros(len(self.tokenizer.vocabulary), np.float32)
        TermOffsets(none, float(scores.max())).save(folder / OFFSETS)

    def _model(
        self, head: PreTrainedConfig, source: FeatureSource, weights: nn.Module, options: Json
    ) -> VisualSparta:
        """VisualSparta with these vectors, compact."""
        head.vocab_size = len(self.tokenizer.vocabulary)
        head.hidden_size = self.terms.vectors.shape[1]
        model = from_config(
            head,
            self.tokenizer,
            source,
            **{"use_labels": False, "use_locations": False, "offset": "none", **options},
        )
        assert model.head is not None
        model.head.load_state_dict(weights.state_dict())
        terms = self.bags.terms
        with torch.no_grad():
            model.query_embedding.weight.zero_()
            model.query_embedding.weight[terms] = self.terms.vectors
        model.term_frequencies.zero_()
        model.term_frequencies[terms] = self.bags.frequencies
        model.trained_terms.zero_()
        model.trained_terms[terms] = True
        model.make_compact()
        return model

    def _write_rare(self, folder: Path) -> None:
        """List the terms that the captions of few photos have."""
        texts, vocabulary = self.texts, self.tokenizer.vocabulary
        counts = torch.zeros(len(vocabulary) + 1, dtype=torch.int64)
        for first, count in zip(texts.first, texts.count, strict=True):
            counts[torch.unique(texts.terms[first : first + count])] += 1
        rare = [vocabulary[term] for term in self.bags.terms.tolist() if counts[term] < PHOTOS]
        text = json.dumps({"photos": PHOTOS, "terms": rare}, ensure_ascii=False)
        (folder / RARE_TERMS).write_text(text, encoding="utf-8")


# ---- the table of spelling: the words of several word pieces that captions have ------------------

LEAST, FREQUENT = 3, 10  # captions with a correct word, and with one that corrections may be
MISSPELT = 300  # times as frequent as a word that nobody lists is the word that it is taken for
LONG = 8  # letters; only longer words are corrected by two edits
_WORD = re.compile(r"[^\W\d_]+")


def write_spelling(
    texts: Iterable[str],
    tokenizer: TermTokenizer,
    folder: Path,
    listed: Collection[str] = frozenset(),
) -> None:
    """Write `folder/spelling.json`.

    Args:
        texts: captions and sentences of the training.
        tokenizer: of the model. Its words of one piece are correct, and not in the table.
        folder: of the model.
        listed: further correct words, as the tokenizer normalises them. Those that no correction
            could replace are left out.
    """
    typed = Counter(word for text in texts for word in {*_WORD.findall(tokenizer.fold(text))})
    counts, pieces = Counter[str](), dict[str, int]()
    for word, count in typed.items():
        own = tokenizer.encode_query(word).pieces
        whole = tokenizer.written(word, own) if own else ""
        counts[whole] += count
        pieces[whole] = len(own)
    # Possessives, which many type without the apostrophe.
    plain = (word for word, count in counts.items() if count >= MISSPELT and word[-1] != "s")
    listed = {*listed, *(f"{word}s" for word in plain)}
    most = Counter[str]()
    for word, count in counts.items():
        most |= Counter(dict.fromkeys(_shortened(word, 1), count)) if count >= MISSPELT else {}
    correct = [
        word
        for word, count in counts.most_common()
        if (pieces[word] > 1 or word not in tokenizer.ids) and count >= LEAST and word.isalpha()
        and (word in listed or all(most[one] < MISSPELT * count for one in _shortened(word, 1)))
    ]  # fmt: skip
    frequent = [word for word in correct if counts[word] >= FREQUENT]
    targets = [*frequent, *(word for word, own in pieces.items() if own == 1)]
    near = {one for word in targets for one in _shortened(word, 2)}
    others = {word for word in {*correct, *listed} - {*frequent} if word not in tokenizer.ids}
    edits = {word: 1 + (len(word) >= LONG) for word in others}
    kept = [word for word in others if not near.isdisjoint(_shortened(word, edits[word]))]
    table = {"frequent": frequent, "other": sorted(kept)}
    (folder / SPELLING).write_text(json.dumps(table, ensure_ascii=False), encoding="utf-8")


def _shortened(word: str, letters: int) -> set[str]:
    """A word, and what is left of it without some letters, at most so many."""
    found = {word}
    for _ in range(letters):
        found |= {one[:place] + one[place + 1 :] for one in found for place in range(len(one))}
    return found
