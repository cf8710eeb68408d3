"""Dual encoders: an image tower and a text tower into one space, of transformers or of our own."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import AutoConfig, AutoTokenizer, PreTrainedConfig
from transformers.models.auto.modeling_auto import MODEL_MAPPING

from sparta.errors import InputError, first_line
from sparta.features.record import FeatureSource, ImageFeatures
from sparta.json_values import Json
from sparta.model_id import find_file, model_folder, pinned_name, read_model_config
from sparta.networks.encoder import SMALL_FILES, text_key
from sparta.networks.load import load_encoder
from sparta.networks.pretrained import load_model
from sparta.progress import Progress, no_progress
from sparta.text_encoder import move
from sparta.visualsparta.config import DenseHeadConfig, ImageHeadConfig, VisualSpartaConfig
from sparta.visualsparta.image_head import DenseHead
from sparta.vse.aggregators import GPO
from sparta.vse.batch import TextBatch, collate_regions
from sparta.vse.config import VseConfig
from sparta.vse.encoders import unit
from sparta.vse.model import VseModel
from sparta.vse.tokenizer import FILE

BATCH = 64  # sentences at once
# Trained with sentences padded to full length, whose last token is the sentence's vector.
PADDED = {"siglip", "siglip2"}
CELLS = 7  # on a side, of an image tower's patches that explanations choose from
SPREAD = 2.0  # deviation of similarities divided by the temperature, of models that have none
SENTENCE_TRANSFORMERS = "modules.json"
WHOLE = ("model.safetensors", "pytorch_model.bin", "preprocessor_config.json", *SMALL_FILES)


class DualEncoder(ABC):
    """What gives sentences and photos vectors whose product is their similarity.

    Attributes:
        name: pinned, to be recorded.
        source: of the features that its image side reads.
        scale: what similarities are multiplied by before a softmax, None where it is unknown.
        head: configuration of the image head that a model of term vectors gets from it; of the
            head's sizes only those that the features do not decide.
    """

    name: str
    source: FeatureSource
    scale: float | None
    head: PreTrainedConfig

    @abstractmethod
    def _embed(self, texts: list[str]) -> Tensor:
        """[n, d] float32 of length 1."""

    @abstractmethod
    def photo_vectors(self, images: Sequence[ImageFeatures]) -> Tensor:
        """[n, d] float32 of length 1."""

    @abstractmethod
    def text_side(self, folder: Path) -> tuple[nn.Module, Json]:
        """Write the tokenizer into a folder, for `TextTower`.

        Returns a module from ids and mask [1, L] to [1, d] float32 of length 1, and a description:
        how a dense model splits "words", or whether a mask "masks" the padding.
        """

    def image_head(self) -> nn.Module | None:
        """The image head's weights, None where it has none."""
        return None

    @property
    def key(self) -> str:
        """Names all that decides a text's vector."""
        return text_key(self.name)

    @torch.inference_mode()
    def embed(self, texts: Sequence[str], progress: Progress = no_progress) -> Tensor:
        """[S, d] float16 of length 1; progress of the stage "sentences"."""
        order = np.argsort([len(text) for text in texts], kind="stable")
        found: Tensor | None = None
        for start in range(0, len(order), BATCH):
            part = order[start : start + BATCH].tolist()
            vectors = self._embed([texts[place] for place in part]).half().cpu()
            if found is None:
                found = torch.empty(len(texts), vectors.shape[1], dtype=torch.half)
            found[part] = vectors
            progress("sentences", min(start + BATCH, len(order)), len(order))
        assert found is not None
        return found


def open_dual_encoder(name: str | Path, device: torch.device) -> DualEncoder:
    """A dual encoder of transformers (CLIP, SigLIP, …), or a dense VSE model.

    Args:
        name: hub name or folder; that of sentence-transformers' CLIP models, too.
        device: for the text tower.

    Raises:
        InputError: if it is another kind of model, or is not whole.
    """
    name = _inner(str(name))
    kind = str(read_model_config(name, (), "dual encoder").get("model_type"))
    if kind == VisualSpartaConfig.model_type:
        raise InputError(f"{name} is a VisualSparta model already: index photos with it")
    if kind == VseConfig.model_type:
        return DenseEncoder(name, device)
    return TransformersEncoder(name, device)


def _inner(name: str) -> str:
    """The folder of a CLIP inside one of sentence-transformers; any other name unchanged."""
    file = find_file(name, SENTENCE_TRANSFORMERS)
    if file is None:
        return name
    first = json.loads(file.read_text(encoding="utf-8"))[0]
    if not first["type"].endswith("CLIPModel"):
        raise InputError(f"{name} embeds texts alone: give a model that embeds photos, too")
    paths = [find_file(name, f"{first['path']}/{file}".lstrip("/")) for file in WHOLE]
    return str(next((path.parent for path in paths if path), name))


class TransformersEncoder(DualEncoder):
    """CLIP and its relatives, with `get_image_features` and `get_text_features`."""

    def __init__(self, name: str, device: torch.device) -> None:
        check_towers(name)
        self.name, self._device = pinned_name(name), device
        self.head = ImageHeadConfig(intermediate_size=0)
        try:
            self._tokenizer = AutoTokenizer.from_pretrained(model_folder(name, weights=False))
            self._model = load_model(name).eval().to(device)
        except (OSError, ValueError, ImportError) as error:
            raise InputError(
                f"{name} lacks its tokenizer or weights: {first_line(error)}"
            ) from error
        config = self._model.config
        texts = config.get_text_config()
        self._padding = "max_length" if config.model_type in PADDED else "longest"
        self._length = min(self._tokenizer.model_max_length, texts.max_position_embeddings)
        self._text = _Text(self._model)
        self.scale = _scale(self._model)

    @property
    def source(self) -> FeatureSource:  # type: ignore[override]
        """Of the vectors of the image tower, with at most `CELLS` cells on a side."""
        encoder = load_encoder(self.name, None, 0, "cpu", joint=True)
        source = encoder.source
        if min(encoder.grid) > CELLS:
            source.extra["grid"] = CELLS
        return source

    def _embed(self, texts: list[str]) -> Tensor:
        given = self._tokenizer(
            texts,
            padding=self._padding,
            truncation=True,
            max_length=self._length,
            return_tensors="pt",
        )
        given = given.to(self._device)
        vectors: Tensor = self._text(given["input_ids"], given.get("attention_mask"))
        return vectors

    def text_side(self, folder: Path) -> tuple[nn.Module, Json]:
        """See `DualEncoder`."""
        fast = getattr(self._tokenizer, "backend_tokenizer", None)
        if fast is None:
            raise InputError(f"{self.name} has no fast tokenizer (tokenizer.json)")
        fast.no_padding()
        if self._padding == "max_length":
            own = {"direction": self._tokenizer.padding_side, "length": self._length}
            fast.enable_padding(
                **own, pad_id=self._tokenizer.pad_token_id, pad_token=self._tokenizer.pad_token
            )
        fast.enable_truncation(self._length)
        fast.save(str(folder / FILE))
        return self._text, {"masks": "attention_mask" in self._tokenizer.model_input_names}

    def photo_vectors(self, images: Sequence[ImageFeatures]) -> Tensor:
        """See `DualEncoder`."""
        whole: NDArray[np.float16] = np.stack([image.features[-1] for image in images])
        return F.normalize(torch.from_numpy(whole).float(), dim=1)


class _Text(nn.Module):
    """The text tower of a model of transformers."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor, mask: Tensor | None) -> Tensor:
        """Ids and mask [B, L] to [B, d] float32 of length 1."""
        found = self.model.get_text_features(input_ids=ids, attention_mask=mask)
        vectors = found if isinstance(found, Tensor) else found.pooler_output
        if vectors is None or vectors.ndim != 2:
            raise InputError("the model gives no single vector of a text")
        return F.normalize(vectors.float(), dim=1)


def check_towers(name: str) -> None:
    """Refuse a model without an image tower and a text tower, by its configuration."""
    try:
        config = AutoConfig.from_pretrained(model_folder(name, weights=False))
    except (OSError, ValueError) as error:
        raise InputError(f"{name}: {first_line(error)}") from error
    kind: Any = MODEL_MAPPING.get(type(config), None)
    if not all(hasattr(kind, one) for one in ("get_image_features", "get_text_features")):
        raise InputError(
            f"{name} is a {config.model_type}, which is no dual encoder: give a model such as CLIP "
            "or SigLIP, or a dense model of this project"
        )


def _scale(model: Any) -> float | None:
    """The inverse temperature that a model was trained with."""
    if (logarithm := getattr(model, "logit_scale", None)) is not None:
        return float(logarithm.detach().exp())
    temperature = getattr(model, "temperature", None)  # of ALIGN
    return None if temperature is None else float(1 / temperature.detach())


class DenseEncoder(DualEncoder):
    """A dense VSE model with one vector an image, which reads features."""

    def __init__(self, name: str, device: torch.device) -> None:
        model = VseModel.from_pretrained(name)
        config = model.config
        if config.views > 1:
            raise InputError(
                f"{name} gives a photo {config.views} vectors, of which a query takes the best: "
                "give a model of one vector, such as VSE∞"
            )
        if model.vision is not None or model.tokenizer is None or config.feature_source is None:
            raise InputError(
                f"{name} has a vision network inside, no tokenizer, or no record of its features: "
                "give a model that reads features"
            )
        move(model, device)
        self.name, self._model = pinned_name(name), model
        self.source = FeatureSource(**config.feature_source)
        self.scale = 1 / config.temperature if config.temperature else None
        self.head = DenseHeadConfig(dense=config.to_dict())

    def image_head(self) -> nn.Module:
        """The dense model's image encoder."""
        head = DenseHead(self._model.config.to_dict())
        wanted = head.dense.state_dict().keys()
        state = {name: one for name, one in self._model.state_dict().items() if name in wanted}
        head.dense.load_state_dict(state)
        return head.eval()

    def _embed(self, texts: list[str]) -> Tensor:
        return self._model.embed_texts(texts)

    def text_side(self, folder: Path) -> tuple[nn.Module, Json]:
        """See `DualEncoder`."""
        assert self._model.tokenizer is not None
        self._model.tokenizer.save(folder)
        return _DenseText(self._model), {"words": self._model.config.words}

    @torch.inference_mode()
    def photo_vectors(self, images: Sequence[ImageFeatures]) -> Tensor:
        """See `DualEncoder`."""
        batch = collate_regions(images, self._model.config.max_regions).to(self._model.device)
        return self._model.encode_images(batch)[:, 0].cpu()


class _DenseText(nn.Module):
    """The text encoder of a dense model, by operations that can be traced for any length."""

    def __init__(self, model: VseModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Ids and mask [1, L] of one text, of which nothing is padding, to [1, d]."""
        model, texts = self.model, TextBatch(ids, mask.sum(dim=1))
        if model.config.text == "sentence":
            return model.encode_texts(texts)
        if model.text_encoder is not None:
            read = model._read(texts)
        else:
            words = model.word_encoder
            hidden = words.gru(words.embedding(ids))[0]
            read = hidden.unflatten(-1, (-1, words.gru.hidden_size)).mean(dim=-2)
        pooling: Any = model.text_pooling
        whole = isinstance(pooling, GPO)
        return unit(pooling.pool_whole(read) if whole else pooling(read, texts.lengths))
