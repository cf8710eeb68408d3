"""What a training of term vectors reads: views of photos, and texts as vectors and as terms."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoTokenizer

from sparta.captions.read import CaptionedPhoto
from sparta.errors import InputError
from sparta.features.store import FeatureStore
from sparta.model_id import model_folder
from sparta.progress import Progress
from sparta.text_encoder import cut_embeddings, load_text_encoder
from sparta.tokenizer import TermTokenizer

BATCH = 256  # sentences
LONGEST = 128  # word pieces of a sentence that the encoder reads


@dataclass
class Views:
    """N photos whose views' features are stored."""

    features: Tensor  # [views, N, d] float16 of whole photos, the plain view first

    @classmethod
    def read(
        cls, stores: Sequence[FeatureStore], photos: Sequence[CaptionedPhoto], progress: Progress
    ) -> Views:
        """Read the whole-photo vectors, the last region of each; progress of stage "features"."""
        found = torch.empty(len(stores), len(photos), stores[0].source.dimension, dtype=torch.half)
        for view, store in enumerate(stores):
            for row, photo in enumerate(photos):
                whole = store[store.index(photo.image_id)].features[-1]
                found[view, row] = torch.from_numpy(whole.copy())
            progress("features", view + 1, len(stores))
        return cls(found)

    def draw(self, photos: Tensor) -> Tensor:
        """[B] numbers of photos to features [B, d] float32 of a random view of each."""
        views = torch.randint(len(self.features), photos.shape)
        return self.features[views, photos].float()


@dataclass
class Texts:
    """S sentences, the captions of N photos first."""

    vectors: Tensor  # [S, d] float16, a frozen sentence encoder's, of length sqrt(d)
    terms: Tensor  # [S, L] int64 word pieces, V for padding
    first: Tensor  # [N] int64, number of each photo's first caption
    count: Tensor  # [N] int64, captions of each photo

    def caption_of(self, photos: Tensor) -> Tensor:
        """[B] numbers of photos to the numbers of a random caption of each."""
        return self.first[photos] + (torch.rand(len(photos)) * self.count[photos]).long()

    def owners(self) -> Tensor:
        """[Q] the number of each caption's photo."""
        return torch.arange(len(self.count)).repeat_interleave(self.count)


def read_texts(
    photos: Sequence[CaptionedPhoto],
    sentences: Sequence[str],
    encoder: str,
    tokenizer: TermTokenizer,
    cache: Path,
    progress: Progress,
) -> Texts:
    """Captions and sentences as vectors and word pieces.

    Vectors are read from the cache if that file exists. Reports progress of the stage "sentences".
    """
    texts = [*(caption for photo in photos for caption in photo.captions), *sentences]
    count = torch.tensor([len(photo.captions) for photo in photos])
    digest = hashlib.sha256("\n".join(texts).encode()).hexdigest()
    if cache.is_file():
        with safe_open(cache, "pt") as file:
            vectors, known = file.get_tensor("vectors"), file.metadata()["texts"]
        if known != digest:
            raise InputError(
                f"{cache}: the run began with other captions or sentences: restore them, or train "
                "in another --out"
            )
    else:
        vectors = sentence_vectors(encoder, texts, progress)
        partial = cache.with_suffix(".partial")
        save_file({"vectors": vectors}, partial, {"texts": digest})
        partial.replace(cache)
    ids = [torch.tensor(tokenizer.encode_ids(text), dtype=torch.int64) for text in texts]
    terms = pad_sequence(ids, batch_first=True, padding_value=len(tokenizer.vocabulary))
    return Texts(vectors, terms, count.cumsum(0) - count, count)


@torch.inference_mode()
def sentence_vectors(encoder: str, texts: Sequence[str], progress: Progress) -> Tensor:
    """Mean vectors [S, d] float16 of a BERT-like encoder, as sentence-transformers takes them.

    Their length is sqrt(d), so that their numbers are about 1.
    """
    tokenizer = AutoTokenizer.from_pretrained(model_folder(encoder, weights=False))
    model = load_text_encoder(encoder)
    cut_embeddings(model, len(tokenizer), encoder)
    size = model.config.hidden_size
    found = torch.empty(len(texts), size, dtype=torch.half)
    order = np.argsort([len(text) for text in texts], kind="stable")
    for start in range(0, len(order), BATCH):
        part = order[start : start + BATCH]
        cut = {"padding": True, "truncation": True, "max_length": LONGEST}
        given = tokenizer([texts[i] for i in part], **cut, return_tensors="pt")
        hidden = model.eval()(**given).last_hidden_state
        mask = given["attention_mask"][:, :, None]
        mean = (hidden * mask).sum(dim=1) / mask.sum(dim=1)
        found[torch.from_numpy(part)] = (F.normalize(mean, dim=-1) * math.sqrt(size)).half()
        progress("sentences", min(start + BATCH, len(order)), len(order))
    return found
