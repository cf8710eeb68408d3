"""What a training of term vectors reads: views of photos, and texts as vectors and as terms."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor
from torch.nn import functional as F
from transformers import AutoTokenizer

from sparta.adapt.fit import Texts, Views
from sparta.captions.read import CaptionedPhoto
from sparta.errors import InputError
from sparta.features.store import FeatureStore
from sparta.model_id import model_folder
from sparta.progress import Progress
from sparta.text_encoder import cut_embeddings, load_text_encoder
from sparta.tokenizer import WordPieceTokenizer

BATCH = 256  # sentences
LONGEST = 128  # word pieces of a sentence that the encoder reads


def read_views(
    stores: Sequence[FeatureStore], photos: Sequence[CaptionedPhoto], progress: Progress
) -> Views:
    """Read the whole-photo vectors, the last region of each; progress of stage "features"."""
    found = torch.empty(len(stores), len(photos), stores[0].source.dimension, dtype=torch.half)
    for view, store in enumerate(stores):
        for row, photo in enumerate(photos):
            whole = store[store.index(photo.image_id)].features[-1]
            found[view, row] = torch.from_numpy(whole.copy())
        progress("features", view + 1, len(stores))
    return Views(found)


def read_texts(
    photos: Sequence[CaptionedPhoto],
    sentences: Sequence[str],
    encoder: str,
    tokenizer: WordPieceTokenizer,
    cache: Path,
    progress: Progress,
) -> tuple[Texts, Tensor]:
    """Captions and sentences as word pieces, and their vectors [S, d] float16 of length sqrt(d).

    Vectors are read from the cache if that file exists. Reports progress of the stage "sentences".
    """
    texts = [*(caption for photo in photos for caption in photo.captions), *sentences]
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
    captions = [photo.captions for photo in photos]
    return Texts.of(captions, sentences, tokenizer), vectors


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
