"""Photos and captions as training examples; a draw depends only on seed, epoch and photo."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from torch import Tensor
from torch.utils.data import Dataset

from sparta.features.record import ImageFeatures
from sparta.features.store import FeatureStore
from sparta.tokenizer import TermTokenizer
from sparta.visualsparta.batch import ImageBatch, ImagePadder
from sparta.visualsparta.model import pad_ids
from training.module import drop_regions, drop_words

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
# Photos in one forward pass. With region dropout, a third of a large batch would be padding; and
# tensors of parts fit the caches, and memory that malloc recycles.
PART = 64


class TrainingBatch(NamedTuple):
    """B photos and Q queries, their captions."""

    images: list[ImageBatch]  # B photos in parts, those of similar length together
    photos: Tensor  # [B] int64, index of each photo in the data set
    query_ids: Tensor  # [Q, L] int64 term ids
    query_mask: Tensor  # [Q, L] bool
    query_photos: Tensor  # [Q] int64, index of the photo each caption describes


@dataclass(frozen=True)
class TrainingExample:
    """One photo with its captions as drawn in one epoch."""

    photo: int  # its index in the data set
    image: ImageFeatures  # its features
    captions: list[list[int]]  # term ids of each


@dataclass
class CaptionedFeatures(Dataset[TrainingExample]):
    """Photos with tokenised captions.

    Keys are those of `EpochSampler` or `PairSampler`. Every epoch draws one of the feature stores,
    some captions (if the key names none), and dropout for each photo.
    """

    stores: Sequence[FeatureStore]  # of the same photos
    image_ids: Sequence[str]  # N photos
    captions: Sequence[list[list[int]]]  # term ids of each caption of each photo, at least one
    seed: int  # of all draws
    captions_per_photo: int = 1  # drawn per photo and epoch
    word_dropout: float = 0.0  # probability that a term is dropped
    region_dropout: float = 0.0  # probability that a region is dropped

    def __post_init__(self) -> None:
        self.rows = [[store.index(name) for name in self.image_ids] for store in self.stores]

    def __len__(self) -> int:
        return len(self.captions)

    def __getitem__(self, key: tuple[int, int] | tuple[int, int, int]) -> TrainingExample:
        _, photo, *chosen = key
        rng = np.random.default_rng((self.seed, *key))
        store = int(rng.integers(len(self.stores)))
        image = self.stores[store][self.rows[store][photo]]
        captions = self.captions[photo]
        if not chosen:
            # A photo with too few captions repeats some: all processes need equally many.
            wanted = self.captions_per_photo
            chosen = rng.choice(len(captions), wanted, replace=len(captions) < wanted).tolist()
        image = drop_regions(image, self.region_dropout, rng)
        drawn = [drop_words(captions[i], self.word_dropout, rng) for i in chosen]
        return TrainingExample(photo, image, drawn)


class TrainingCollator:
    """Collates examples to a `TrainingBatch`."""

    def __init__(self, images: ImagePadder) -> None:
        self.images = images

    def __call__(self, examples: Sequence[TrainingExample]) -> TrainingBatch:
        """Pad the regions of photos and the terms of queries; photos are ordered by length."""
        ordered = sorted(examples, key=lambda e: self.images.length(e.image))
        parts = [ordered[start : start + PART] for start in range(0, len(ordered), PART)]
        ids, mask = pad_ids((ids for e in ordered for ids in e.captions), "cpu")
        return TrainingBatch(
            [self.images([e.image for e in part]) for part in parts],
            torch.tensor([e.photo for e in ordered]),
            ids,
            mask,
            torch.tensor([e.photo for e in ordered for _ in e.captions]),
        )


def learn_vocabulary(captions: Iterable[str], size: int) -> TermTokenizer:
    """Learn at most `size` word pieces, lower-cased as bert-base-uncased does.

    The result is deterministic, which a resumed run depends on.
    """
    texts = list(captions)
    learner = _tokenizer(models.WordPiece(unk_token="[UNK]"))
    # The trainer numbers the letters in a random order and breaks ties by these numbers. Passed
    # as special tokens, they are numbered in this order.
    trainer = trainers.WordPieceTrainer(
        vocab_size=size, special_tokens=SPECIAL + _letters(learner, texts), show_progress=False
    )
    learner.train_from_iterator(texts, trainer)
    tokenizer = _tokenizer(models.WordPiece(learner.get_vocab(), unk_token="[UNK]"))
    tokenizer.add_special_tokens(SPECIAL)
    return TermTokenizer(tokenizer)


def _tokenizer(model: models.WordPiece) -> Tokenizer:
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    return tokenizer


def _letters(tokenizer: Tokenizer, texts: Iterable[str]) -> list[str]:
    """Letters that start a word, and letters that continue one ("##a")."""
    letters = set()
    for text in texts:
        normal = tokenizer.normalizer.normalize_str(text)
        for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(normal):
            letters |= {word[0], *(f"##{letter}" for letter in word[1:])}
    return sorted(letters)
