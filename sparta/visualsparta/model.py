"""VisualSparta (arXiv 2101.00265), to be read together with section 3 of the paper.

Offline, a transformer over an image's regions and labels gives a weight to every term of the
vocabulary; online, a query's terms are looked up and summed. No network runs at query time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import AutoModel, PreTrainedConfig, PreTrainedModel, initialization
from transformers.masking_utils import create_bidirectional_mask

from sparta.errors import InputError, first_line
from sparta.features.record import FeatureSource
from sparta.model_id import DAMAGED_WEIGHTS, TOWER, model_folder, read_model_config
from sparta.tokenizer import TermTokenizer
from sparta.visualsparta.batch import ImageBatch
from sparta.visualsparta.config import DenseHeadConfig, ImageHeadConfig, VisualSpartaConfig
from sparta.visualsparta.image_head import ConvolutionalStem, DenseHead, JointHead
from sparta.visualsparta.windows import BOXES, Windows, windows_of
from sparta.vse.encoders import ImageHead

# Terms matched at once: their products with B images' positions stay in a cache, so that the
# maximum is taken of them there. A GPU has one of 50 MB in all, and needs more work at once.
VOCABULARY_CHUNK = 512
GPU_PRODUCTS = 1 << 24
QUERY = "query_embedding.weight"
LABELS = "encoder.embeddings."  # used for label tokens alone
FREQUENCIES = "term_frequencies"


class TermScores(NamedTuple):
    """Scores of B images for T terms.

    Attributes:
        scores: [B, T] float32, log(1 + ReLU(y + b)), zero where a term is absent.
        positions: [B, T] int16, the position that won the maximum of equation 10. An image of r
            regions and k label tokens has its regions at 0 to r - 1, its tokens at r to r + k - 1.
            Of a model with `VisualSparta.windows` it is the number of a box there.
    """

    scores: Tensor
    positions: Tensor


class SparseTermScores(NamedTuple):
    """Positive term scores of B images, as rows of a compressed sparse matrix.

    Attributes:
        indptr: [B + 1] int64, image i owns entries indptr[i] to indptr[i + 1].
        terms: [nnz] int32, term ids, rising within an image.
        scores: [nnz] float32.
        positions: [nnz] int16, the winning position of each kept term, as in `TermScores`.
    """

    indptr: NDArray[np.int64]
    terms: NDArray[np.int32]
    scores: NDArray[np.float32]
    positions: NDArray[np.int16]


class TermCounts(NamedTuple):
    """Q queries as bags of terms.

    Attributes:
        terms: [U] int64, the distinct term ids of all Q queries, rising.
        counts: [Q, U] float32, how often each query holds each term.
    """

    terms: Tensor
    counts: Tensor


def count_terms(ids: Tensor, mask: Tensor) -> TermCounts:
    """Count the terms of tokenised queries; a term twice counts twice.

    Args:
        ids: [Q, L] int64 term ids.
        mask: [Q, L] bool, False for padding, which never counts.
    """
    terms, columns = torch.unique(ids[mask], return_inverse=True)
    counts = torch.zeros(len(ids), len(terms), device=ids.device)
    rows = mask.nonzero()[:, 0]
    counts.index_put_((rows, columns), torch.ones_like(rows, dtype=counts.dtype), accumulate=True)
    return TermCounts(terms, counts)


class VisualSparta(PreTrainedModel):
    """The image transformer, the query embedding and the score between them.

    Attributes:
        tokenizer: word pieces of the model's folder; None until attached or loaded.
        trained_terms: [V] bool, trained terms: those some training caption or sentence contained.
        term_frequencies: [V] int64, how many training captions and sentences contained each term;
            all 0 where that is unknown.
        indexable: [V] bool, False for special and unused tokens, which never score.
        image_tower: folder of the network in the model's, that makes its features; None if there is
            none.
    """

    config_class = VisualSpartaConfig
    config: VisualSpartaConfig
    base_model_prefix = "visual_sparta"
    main_input_name = "regions"
    _supports_sdpa = True
    # In force if the configuration sets tie_query_embedding.
    _tied_weights_keys = {  # noqa: RUF012  # declared so by transformers
        "query_embedding.weight": "encoder.embeddings.word_embeddings.weight"
    }
    # Models saved without term frequencies can be loaded.
    _keys_to_ignore_on_load_missing = ["term_frequencies"]  # noqa: RUF012  # as above
    trained_terms: Tensor
    term_frequencies: Tensor
    indexable: Tensor

    def __init__(self, config: VisualSpartaConfig) -> None:
        super().__init__(config)
        inner = config.encoder_config
        self.patches: bool = getattr(inner, "patches", False)
        self.head: ImageHead | JointHead | DenseHead | None = None
        if isinstance(inner, DenseHeadConfig):
            self.head = DenseHead(inner.dense)
        elif not isinstance(inner, ImageHeadConfig):
            self._add_transformer(config, inner)
        elif inner.intermediate_size:
            self.head = ImageHead(config.feature_dim, inner.intermediate_size, inner.hidden_size)
        else:
            self.head = JointHead()
        # E_tok of equation 1, at first a copy of the encoder's.
        self.query_embedding = nn.Embedding(inner.vocab_size, inner.hidden_size)
        self.bias = nn.Parameter(torch.tensor(float(config.initial_bias)))  # b of equation 11
        self.register_buffer("trained_terms", torch.ones(inner.vocab_size, dtype=torch.bool))
        self.register_buffer("term_frequencies", torch.zeros(inner.vocab_size, dtype=torch.int64))
        self.register_buffer("indexable", torch.ones(inner.vocab_size, dtype=torch.bool))
        self.tokenizer: TermTokenizer | None = None
        self.image_tower: Path | None = None
        self.post_init()

    def _add_transformer(self, config: VisualSpartaConfig, inner: PreTrainedConfig) -> None:
        self.encoder = AutoModel.from_config(inner)
        if getattr(self.encoder, "pooler", None) is not None:
            self.encoder.pooler = None
        self.stem = ConvolutionalStem(config.stem) if config.stem else None
        visual = config.stem[-1] if config.stem else config.feature_dim
        width = visual + (6 if config.use_locations else 0)
        self.input_dropout = nn.Dropout(config.input_dropout)
        self.region_projection = nn.Linear(width, inner.hidden_size)  # W and b of equation 8
        self.region_norm = (
            nn.LayerNorm(inner.hidden_size, config.region_norm_eps)
            if config.region_layer_norm
            else nn.Identity()
        )
        self.region_dropout = nn.Dropout(config.region_dropout)

    # ---- image side: equations 2 to 9 -------------------------------------------------------

    def embed_regions(self, batch: ImageBatch) -> Tensor:
        """Equations 4, 5 and the first half of 8: [visual ; location] W + b, [B, n, h]."""
        visual = batch.regions.float()
        if self.stem is not None:
            visual = self.stem(visual)
        if self.config.square_root:
            # Of the size alone: vectors other than a ReLU network's may be negative.
            visual = visual.sign() * visual.abs().sqrt()
        visual = self.input_dropout(visual)
        if self.config.use_locations:
            visual = torch.cat([visual, batch.locations], dim=-1)
        return self.region_dropout(self.region_norm(self.region_projection(visual)))

    def embed_labels(self, batch: ImageBatch) -> Tensor:
        """Equations 6 and 7: token + position + segment embedding, [B, k, h]."""
        segments = torch.full_like(batch.label_ids, self.config.label_segment)
        return self.encoder.embeddings(input_ids=batch.label_ids, token_type_ids=segments)

    def contextualise(self, batch: ImageBatch) -> tuple[Tensor, Tensor]:
        """Equations 8 and 9: the transformer over regions and labels, or the image head of each.

        H is [B, n + k, h], its mask [B, n + k] bool. With an image head and `windows` there are
        the means over these boxes in place of the parts, or before them if `patches` take part.
        """
        if self.head is not None:
            hidden, mask = self.parts(batch)
            windows = self.windows(hidden.shape[1])
            if windows is None:
                return hidden, mask
            seen = torch.from_numpy(windows.weights).to(hidden) @ hidden[:, :-1]
            hidden = torch.cat([seen, hidden if self.patches else hidden[:, -1:]], dim=1)
            return hidden, mask.new_ones(hidden.shape[:2])
        parts, mask = [self.embed_regions(batch)], batch.region_mask & self.config.use_visual
        if self.config.use_labels:
            parts.append(self.embed_labels(batch))
            mask = torch.cat([mask, batch.label_mask], dim=1)
        a = torch.cat(parts, dim=1)
        attention = create_bidirectional_mask(
            config=self.encoder.config, inputs_embeds=a, attention_mask=mask.long()
        )
        hidden = self.encoder.encoder(a, attention_mask=attention).last_hidden_state
        return hidden, mask

    def parts(self, batch: ImageBatch) -> tuple[Tensor, Tensor]:
        """An image head's vectors of parts and, last, of wholes [B, n, h], and their mask."""
        if isinstance(self.head, DenseHead):
            return self.head(batch.regions, batch.region_mask)
        assert self.head is not None
        return self.head(batch.regions), batch.region_mask

    # ---- scores: equations 10 to 12 ---------------------------------------------------------

    def match(self, hidden: Tensor, mask: Tensor, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """Equation 10 for every image and term: the maximum over positions, and where it is.

        Args:
            hidden: [B, n + k, h].
            mask: [B, n + k] bool; padding never takes part in the maximum.
            vectors: [T, h], query embedding of the terms.

        Returns:
            y [B, T] and the winning column of `hidden` [B, T] int64.
        """
        products = hidden @ vectors.to(hidden.dtype).T
        products.masked_fill_(~mask[:, :, None], float("-inf"))
        best, column = self.winners(products)
        return best.float(), column

    def winners(self, products: Tensor) -> tuple[Tensor, Tensor]:
        """Of products [B, n + k, T] the maximum over positions [B, T], and where it is.

        With an image head the whole photo, the last column, decides, unless `patches` take part;
        the position is that of the part or the box with the largest product.
        """
        if self.head is None:
            best, column = products.max(dim=1)
            return best, column
        parts = products[:, :-1] if products.shape[1] > 1 else products
        if not self.patches:
            return products[:, -1], parts.argmax(dim=1)
        windows = self.windows(products.shape[1] - BOXES)
        shown = parts if windows is None else parts[:, :BOXES]
        return products.amax(dim=1), shown.argmax(dim=1)  # no mean is above the largest

    def windows(self, regions: int) -> Windows | None:
        """The boxes that positions number, of so many regions; None where they number these."""
        source = self.config.feature_source or {}
        return None if self.head is None else windows_of(source.get("kind"), regions)

    def match_vocabulary(
        self, hidden: Tensor, mask: Tensor, terms: Tensor, chunk: int | None = None
    ) -> tuple[Tensor, Tensor]:
        """As `match`, for terms [T] so many that their products [B, n + k, T] would not fit.

        Args:
            hidden: [B, n + k, h].
            mask: [B, n + k] bool.
            terms: [T] int64 term ids.
            chunk: terms at once; None for what suits the device.
        """
        if chunk is None:
            room = GPU_PRODUCTS // max(1, mask.numel()) if hidden.is_cuda else 0
            chunk = max(VOCABULARY_CHUNK, room)
        kind = hidden.device.type
        if torch.is_autocast_enabled(kind):
            hidden = hidden.to(torch.get_autocast_dtype(kind))  # else done for every chunk
        found = [
            self.match(hidden, mask, self.query_embedding(part)) for part in terms.split(chunk)
        ]
        best, columns = zip(*found, strict=True)
        return torch.cat(best, dim=1), torch.cat(columns, dim=1)

    def activate(self, best: Tensor) -> Tensor:
        """Equations 11 and 12 before the sum: log(1 + ReLU(y + b))."""
        return torch.log1p(torch.relu(best + self.bias))

    def image_term_scores(self, parts: Sequence[ImageBatch], terms: Tensor) -> Tensor:
        """[B, T] float32 scores of the given terms, differentiable: what training uses.

        Args:
            parts: of a batch of B images, each padded to its own longest.
            terms: [T] int64 term ids.
        """
        vectors = self.query_embedding(terms)
        best = [self.match(*self.contextualise(part), vectors)[0] for part in parts]
        return self.activate(torch.cat(best))

    def forward(self, batch: ImageBatch, queries: TermCounts) -> Tensor:
        """Equation 12, f(q, v) for every pair: [Q, B] float32."""
        return queries.counts @ self.image_term_scores([batch], queries.terms).T

    # ---- encoding -----------------------------------------------------------------------------

    @property
    def source(self) -> FeatureSource | None:
        """What makes the model's features, its own network if it has one; None if unknown."""
        if self.config.feature_source is None:
            return None
        source = FeatureSource(**self.config.feature_source)
        return replace(source, backbone=str(self.image_tower)) if self.image_tower else source

    @torch.inference_mode()
    def photo_vectors(self, batch: ImageBatch) -> Tensor:
        """[B, h - 1] float32 of length 1 that an image head gives B images, on its device."""
        if self.head is None:
            raise ValueError("an image transformer gives an image no single vector")
        hidden, _ = self.contextualise(batch.to(self.bias.device))
        return hidden[:, -1, :-1].float()

    @torch.inference_mode()
    def term_scores(self, batch: ImageBatch, wanted: Tensor | None = None) -> TermScores:
        """Scores of the whole vocabulary. Special and unused tokens score 0.

        Matrix products are in bfloat16 on a GPU and in float32 on a CPU.

        Args:
            batch: B images.
            wanted: [V] bool, terms worth computing (None: all); the others score 0.

        Returns:
            scores [B, V] float32 and winning positions [B, V] int16, on the model's device.
        """
        device = self.bias.device
        batch = batch.to(device)
        terms = (self.indexable if wanted is None else self.indexable & wanted).nonzero()[:, 0]
        scores = torch.zeros(len(batch), len(self.indexable), device=device)
        positions = torch.zeros_like(scores, dtype=torch.int16)
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            best, columns = self.match_vocabulary(*self.contextualise(batch), terms)
        scores[:, terms] = self.activate(best)
        # With an image head there are no labels, so nothing behind padding.
        own = columns if self.head is not None else own_positions(batch).gather(1, columns)
        positions[:, terms] = own.to(torch.int16)
        return TermScores(scores, positions)

    def encode_images(self, batch: ImageBatch) -> SparseTermScores:
        """Every positive term score of B images, with the position that won it (equation 14)."""
        scores, positions = self.term_scores(batch)
        kept = scores > 0
        indptr = np.zeros(len(scores) + 1, np.int64)
        indptr[1:] = kept.sum(dim=1).cumsum(0).cpu().numpy()
        return SparseTermScores(
            indptr,
            kept.nonzero()[:, 1].int().cpu().numpy(),
            scores[kept].cpu().numpy(),
            positions[kept].cpu().numpy(),
        )

    def encode_queries(self, texts: Sequence[str]) -> TermCounts:
        """Count the terms of queries' words (equation 1 needs no more); no network runs."""
        if self.tokenizer is None:
            raise ValueError("the model has no tokenizer: load it from a folder, or set .tokenizer")
        return count_terms(*pad_ids(map(self.tokenizer.query_ids, texts), self.bias.device))

    def score(self, queries: TermCounts, images: ImageBatch) -> Tensor:
        """f(q, v) of equation 12 for every pair: [Q, B] float32, without gradients."""
        with torch.inference_mode():
            return self(images.to(self.bias.device), queries)

    # ---- on disk ------------------------------------------------------------------------------

    def _init_weights(self, module: nn.Module) -> None:
        """As transformers does, and zero for term frequencies that a file lacks."""
        super()._init_weights(module)
        if module is self:
            initialization.zeros_(self.term_frequencies)  # does nothing if they were loaded

    def make_compact(self) -> None:
        """Have `save_pretrained` write half precision, and trained terms only.

        Every other term is no longer indexable: its row of the query embedding is not saved.

        Raises:
            InputError: if the query embedding is tied to the encoder's, which needs every row.
        """
        if self.config.tie_query_embedding:
            raise InputError("its query embedding is tied to the encoder's, which needs all rows")
        self.config.compact = True
        self.indexable &= self.trained_terms

    def save_pretrained(  # type: ignore[override]
        self, save_directory: str | Path, **kwargs: Any
    ) -> None:
        """Write `config.json`, `model.safetensors` and, if attached, `tokenizer.json`."""
        if self.config.compact:
            kwargs["state_dict"] = compact_state(self.state_dict(), self.config.use_labels)
        super().save_pretrained(save_directory, **kwargs)
        if self.tokenizer is not None:
            self.tokenizer.save(save_directory)

    @classmethod
    def from_pretrained(  # type: ignore[override]
        cls, name: str | Path, *args: Any, **kwargs: Any
    ) -> VisualSparta:
        """Load a model in float32, with its tokenizer if it has one.

        Args:
            name: hub name, folder, or a model of the package: "photos" or "sample".
            *args: as transformers takes them.
            **kwargs: as transformers takes them; dtype is float32 by default.

        Raises:
            InputError: if there is no such model, or its weights are damaged or those of another
                configuration.
        """
        folder = model_folder(name)
        if (config := VisualSpartaConfig.from_pretrained(folder)).compact:
            model = cls(config)
            model.load_state_dict(read_compact(folder, model.state_dict(), config.use_labels))
        else:
            kwargs.setdefault("dtype", torch.float32)
            try:
                model = super().from_pretrained(folder, *args, **kwargs)
            except DAMAGED_WEIGHTS as error:
                raise InputError(
                    f"{name}: its weights cannot be read: {first_line(error)}"
                ) from error
        if (tower := folder / TOWER).is_dir():
            model.image_tower = tower.resolve()
        if (folder / "tokenizer.json").is_file():
            model.tokenizer = TermTokenizer.from_folder(folder)
        return model.eval()


def load_visualsparta(name: str | Path) -> VisualSparta:
    """As `VisualSparta.from_pretrained`; whatever is no such model raises InputError."""
    read_model_config(name, (VisualSpartaConfig.model_type,), "VisualSparta model")
    try:
        return VisualSparta.from_pretrained(name)
    except (OSError, ValueError) as error:
        raise InputError(f"{name} is not a VisualSparta model: {error}") from error


def own_positions(batch: ImageBatch) -> Tensor:
    """[B, n + k] int16: the position in its own image, without padding, of each column of H."""
    n, k = batch.regions.shape[1], batch.label_ids.shape[1]
    columns = torch.arange(n + k, device=batch.regions.device).expand(len(batch), n + k)
    padding = n - batch.region_mask.sum(dim=1, keepdim=True)
    return (columns - padding * (columns >= n)).to(torch.int16)


def pad_ids(texts: Iterable[list[int]], device: torch.device | str) -> tuple[Tensor, Tensor]:
    """Tokenised texts → ids [Q, L] int64 and mask [Q, L] bool."""
    rows = list(texts)
    lengths = np.array([len(row) for row in rows], np.int64)
    mask = np.arange(lengths.max(initial=0)) < lengths[:, None]
    ids = np.zeros(mask.shape, np.int64)
    ids[mask] = np.fromiter(chain.from_iterable(rows), np.int64)
    return torch.from_numpy(ids).to(device), torch.from_numpy(mask).to(device)


# ---- compact models: half precision, and only the weights that encoding images needs -------------


def compact_state(state: dict[str, Tensor], use_labels: bool) -> dict[str, Tensor]:
    """A model's weights as a compact model stores them.

    Returns:
        The state with these changes: floats are float16; `query_embedding.weight` is [T, h], one
        row for each trained term, rising; the embedding of labels is left out of a model without
        labels; term frequencies are int32.
    """
    small = {
        name: tensor.half() if tensor.is_floating_point() else tensor
        for name, tensor in state.items()
        if use_labels or not name.startswith(LABELS)
    }
    small[QUERY] = small[QUERY][state["trained_terms"]]
    small[FREQUENCIES] = small[FREQUENCIES].int()
    return {name: tensor.contiguous() for name, tensor in small.items()}


def read_compact(folder: Path, state: dict[str, Tensor], use_labels: bool) -> dict[str, Tensor]:
    """The weights in a compact model's folder, in the sizes of `state`; what is absent is 0.

    Raises:
        OSError: if there is no `model.safetensors`.
        ValueError: if it is damaged, or of another configuration.
    """
    path = folder / "model.safetensors"
    absent = [name for name in state if not use_labels and name.startswith(LABELS)]
    try:
        stored = load_file(path)
        query = torch.zeros_like(state[QUERY])
        query[stored["trained_terms"]] = stored[QUERY].float()
    except (SafetensorError, RuntimeError, KeyError, IndexError) as error:
        raise ValueError(f"{path} is not a compact model: {first_line(error)}") from error
    full = stored | {QUERY: query} | {name: torch.zeros_like(state[name]) for name in absent}
    for weight, tensor in state.items():
        if weight not in full or full[weight].shape != tensor.shape:
            raise ValueError(f"{path} does not fit its config.json: see {weight}")
    return full


# ---- the image side alone, to be converted -------------------------------------------------------


class ImageTerms(nn.Module):
    """Equations 2 to 11 for images without labels and with equally many regions: nothing is masked.

    The model reads no labels and is in eval mode; `terms` [T] int64 are those to score, `vectors`
    is whether an image head's vectors are wanted too.
    """

    def __init__(self, model: VisualSparta, terms: Tensor, vectors: bool = False) -> None:
        super().__init__()
        self.model, self.with_vectors = model, vectors
        self.vectors = nn.Parameter(model.query_embedding(terms).detach().clone())

    def forward(self, regions: Tensor, locations: Tensor) -> tuple[Tensor, ...]:
        """Regions [B, n, d] and locations [B, n, 6] → scores and winning regions [B, T].

        If they are wanted, vectors [B, h - 1] are the third output.
        """
        none = torch.zeros(len(regions), 0, dtype=torch.int64)
        everywhere = torch.ones(regions.shape[:2], dtype=torch.bool)
        batch = ImageBatch(regions, locations, everywhere, none, none.bool(), none)
        if self.model.head is not None:
            hidden, _ = self.model.contextualise(batch)
        else:
            embedded = self.model.embed_regions(batch)
            hidden = self.model.encoder.encoder(embedded, attention_mask=None).last_hidden_state
        found = [self.model.winners(part) for part in self.products(hidden)]
        best, columns = zip(*found, strict=True)
        scores = self.model.activate(torch.cat(best, dim=1))
        vectors = (hidden[:, -1, :-1].float(),) if self.with_vectors else ()
        return scores, torch.cat(columns, dim=1).int(), *vectors

    def products(self, hidden: Tensor) -> list[Tensor]:
        """The products of hidden states [B, n, h] with the terms' vectors, [B, n, t] at a time."""
        return [hidden @ part.T for part in self.vectors.split(VOCABULARY_CHUNK)]
