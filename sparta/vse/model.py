"""Visual-semantic embedding: images and texts in one space, scored by their cosine.

One frame for VSE++ (mean or max pooling), VSE∞ (GPO), VSE+2AD (ADPOOL) and MV-VSE (several visual
poolings); the configuration decides which one a model is.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from sparta.errors import InputError, first_line
from sparta.model_id import DAMAGED_WEIGHTS, model_folder, read_model_config
from sparta.progress import Progress
from sparta.vse.aggregators import ADPool, make_pooling
from sparta.vse.batch import PixelBatch, RegionBatch, TextBatch, collate_texts, real_rows
from sparta.vse.config import VseConfig
from sparta.vse.encoders import (
    TextHead,
    Vision,
    VisualProjection,
    WholeProjection,
    WordEncoder,
    build_network,
    unit,
)
from sparta.vse.tokenizer import FILE, TextTokenizer, nltk_words

SENTENCES = 256  # encoded at once
log = logging.getLogger(__name__)

_FOLLOWS_BATCH = (
    "%s: ADPOOL's published code gives an image or text other vectors in a batch with longer ones, "
    "by up to 0.03 a number: fix the padding with the option padded_to of its poolings, or convert "
    "the checkpoint again"
)


def view_scores(texts: Tensor, images: Tensor) -> Tensor:
    """Cosines of unit texts [Q, D] and unit images [N, K, D] view by view: [Q, N, K].

    In the vectors' own precision under autocast too: in 16 bits, near cosines become equal.
    """
    with torch.autocast(texts.device.type, enabled=False):
        return (texts @ images.flatten(0, 1).T).unflatten(1, images.shape[:2])


def score(texts: Tensor, images: Tensor) -> Tensor:
    """Texts [Q, D] against images [N, K, D] by their best view (MV-VSE equation 6): [Q, N]."""
    return view_scores(texts, images).amax(dim=-1)


class VseModel(PreTrainedModel):
    """Two encoders and two poolings into one space.

    Attributes:
        tokenizer: of the model's folder; None until attached or loaded.
        vision: the pretrained vision network inside the model, None if it takes features.
        text_encoder: the pretrained BERT-like transformer inside the model, None for a GRU.
    """

    config_class = VseConfig
    base_model_prefix = "vse"
    main_input_name = "regions"
    _supports_sdpa = True

    def __init__(self, config: VseConfig) -> None:
        super().__init__(config)
        shared = config.view_projections == "shared"
        self.vision: Vision | None = None
        if config.vision is not None:
            self.vision = Vision(config.vision, config.vision_vectors)
        self.input_dropout = nn.Dropout(config.input_dropout)
        self.visual_projections = nn.ModuleList(
            WholeProjection(config.feature_dim, config.visual_width, config.dimension)
            if config.visual == "whole"
            else VisualProjection(config.feature_dim, config.dimension, config.visual == "region")
            for _ in range(1 if shared else config.views)
        )
        self.visual_poolings = nn.ModuleList(
            make_pooling(
                config.visual_pooling, config.dimension, **(config.visual_pooling_options or {})
            )
            for _ in range(config.views)
        )
        self.text_encoder: PreTrainedModel | None = None
        width = config.dimension  # of the vectors that the text pooling takes
        if config.text_encoder is None:
            self.word_encoder = WordEncoder(
                config.vocabulary_size,
                config.word_dim,
                config.dimension,
                config.text_dropout,
                bidirectional=config.text == "bigru",
            )
        else:
            encoder = build_network(config.text_encoder)
            if getattr(encoder, "pooler", None) is not None:
                encoder.pooler = None
            self.text_encoder = encoder
            if config.text == "sentence":
                width, terms = encoder.config.hidden_size, encoder.config.vocab_size
                self.text_head = TextHead(width, terms, config.dimension, config.text_dropout)
            else:
                self.text_projection = nn.Linear(encoder.config.hidden_size, config.dimension)
                self.text_dropout = nn.Dropout(config.text_dropout)
        self.text_pooling = make_pooling(
            config.text_pooling, width, **(config.text_pooling_options or {})
        )
        self.tokenizer: TextTokenizer | None = None
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        """Nothing to do: every part's constructor gives it the weights it was published with."""

    def get_input_embeddings(self) -> Any:
        """The embedding of words or word pieces."""
        if self.text_encoder is None:
            return self.word_encoder.embedding
        return self.text_encoder.get_input_embeddings()

    # ---- encoding -----------------------------------------------------------------------------

    def encode_images(self, images: RegionBatch | PixelBatch) -> Tensor:
        """B images → [B, K, D] float32 of unit length, differentiable; photos need its network."""
        if isinstance(images, PixelBatch):
            images = self.look(images)
        visual, lengths = images.regions.float(), images.lengths
        if self.config.visual == "whole":
            last = (lengths - 1)[:, None, None].expand(-1, 1, visual.shape[2])
            visual, lengths = visual.gather(1, last), torch.ones_like(lengths)
        if self.config.square_root:
            # Of the size alone: vectors other than a ReLU network's may be negative.
            visual = visual.abs().sqrt().copysign(visual)
        visual = self.input_dropout(visual)
        projected = [project(visual, lengths) for project in self.visual_projections]
        if len(projected) == 1:
            projected *= self.config.views
        views = [
            pool(features, lengths)
            for pool, features in zip(self.visual_poolings, projected, strict=True)
        ]
        return unit(torch.stack(views, dim=1))

    def look(self, photos: PixelBatch) -> RegionBatch:
        """What the vision network gives for B photos, which `encode_images` takes."""
        if self.vision is None:
            raise ValueError("the model has no vision network: give it features, not pixels")
        regions = self.vision(photos.pixels)
        size, n, _ = regions.shape
        return RegionBatch(regions, torch.full((size,), n, device=regions.device))

    def encode_texts(self, texts: TextBatch) -> Tensor:
        """B texts → [B, D] float32 of unit length, differentiable."""
        if self.config.text == "sentence":
            padding = ~real_rows(texts.lengths, texts.ids.shape[1])
            terms = texts.ids.masked_fill(padding, self.text_head.padding)
            return unit(self.text_head(self.sentence_vectors(texts), terms))
        return unit(self.text_pooling(self._read(texts), texts.lengths))

    def sentence_vectors(self, texts: TextBatch) -> Tensor:
        """Of a "sentence" model, what its transformer makes of B texts: [B, d] of length sqrt(d).

        The numbers are about 1, as a head wants them.
        """
        pooled = self.text_pooling(self._tokens(texts), texts.lengths)
        return unit(pooled) * pooled.shape[1] ** 0.5

    def _read(self, texts: TextBatch) -> Tensor:
        """One vector of the joint space per token, start and end included: [B, L, D]."""
        if self.text_encoder is None:
            return self.word_encoder(texts.ids, texts.lengths)
        return self.text_dropout(self.text_projection(self._tokens(texts)))

    def _tokens(self, texts: TextBatch) -> Tensor:
        """The transformer's vectors of tokens, start and end included: [B, L, d]."""
        assert self.text_encoder is not None
        mask = real_rows(texts.lengths, texts.ids.shape[1]).long()
        hidden: Tensor = self.text_encoder(texts.ids, attention_mask=mask).last_hidden_state
        return hidden

    def forward(self, texts: TextBatch, images: RegionBatch | PixelBatch) -> Tensor:
        """Similarities of every text with every view of every image: [Q, N, K]."""
        return view_scores(self.encode_texts(texts), self.encode_images(images))

    @torch.no_grad()
    def embed_texts(self, texts: Sequence[str], batch_size: int = 128) -> Tensor:
        """Q texts as typed → [Q, D] float32 on the CPU, in eval mode, by the model's tokenizer."""
        if self.tokenizer is None:
            raise ValueError("the model has no tokenizer: load it from a folder, or set .tokenizer")
        ids = [self.tokenizer.encode(text) for text in texts]
        found = torch.empty(len(ids), self.config.dimension)
        with evaluating(self):
            for start in range(0, len(ids), batch_size):
                batch = collate_texts(ids[start : start + batch_size], self.tokenizer.pad_id)
                found[start : start + batch_size] = self.encode_texts(batch.to(self.device)).cpu()
        return found

    # ---- on disk ------------------------------------------------------------------------------

    def save_pretrained(  # type: ignore[override]
        self, save_directory: str | Path, **kwargs: Any
    ) -> None:
        """Write `config.json`, `model.safetensors` and, if attached, `tokenizer.json`."""
        super().save_pretrained(save_directory, **kwargs)
        if self.tokenizer is not None:
            self.tokenizer.save(save_directory)

    @classmethod
    def from_pretrained(  # type: ignore[override]
        cls, name: str | Path, **kwargs: Any
    ) -> VseModel:
        """Load a folder or hub name in float32 and eval mode, with its tokenizer if it has one.

        Raises:
            InputError: if there is none, it is another kind of model's, weights are missing,
                left over or of other shapes, or the tokenizer is another model's.
        """
        read_model_config(name, (VseConfig.model_type,), "VSE model")
        folder = model_folder(name)
        kwargs.setdefault("dtype", torch.float32)
        try:
            loaded: Any = super().from_pretrained(folder, output_loading_info=True, **kwargs)
        except (OSError, ValueError, *DAMAGED_WEIGHTS) as error:
            raise InputError(f"{name} is not a whole VSE model: {first_line(error)}") from error
        model: VseModel
        model, info = loaded
        for state in ("missing", "unexpected"):
            if keys := sorted(info[f"{state}_keys"]):
                raise InputError(f"{name}: {state} weights in its file: {', '.join(keys[:5])}")
        if (folder / FILE).is_file():
            splitter = nltk_words if model.config.words == "nltk" else None
            model.attach(TextTokenizer.from_folder(folder, splitter), name)
        if any(isinstance(pool, ADPool) and pool.follows_batch for pool in model.modules()):
            log.warning(_FOLLOWS_BATCH, name)
        return model.eval()

    def attach(self, tokenizer: TextTokenizer, where: str | Path) -> None:
        """Use a tokenizer."""
        known = len(self.get_input_embeddings().weight)
        if len(tokenizer) != known:
            raise InputError(
                f"{where}: the tokenizer has {len(tokenizer)} entries, the model embeds {known}: "
                "they belong to different models"
            )
        self.tokenizer = tokenizer


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Eval mode within; afterwards every part is in the mode it was in, frozen ones too."""
    modes = [(part, part.training) for part in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training


@torch.inference_mode()
def sentence_vectors(model: VseModel, texts: Sequence[str], progress: Progress) -> Tensor:
    """`VseModel.sentence_vectors` of texts, [S, d] float16; progress of stage "sentences"."""
    assert model.tokenizer is not None
    ids = [model.tokenizer.encode(text) for text in texts]
    found = []
    order = torch.tensor([len(row) for row in ids]).argsort(stable=True)
    with evaluating(model):
        for part in order.split(SENTENCES):
            batch = collate_texts([ids[i] for i in part.tolist()], model.tokenizer.pad_id)
            found.append(model.sentence_vectors(batch).half())
            progress("sentences", sum(map(len, found)), len(ids))
    return torch.cat(found)[order.argsort()]
