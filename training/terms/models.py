"""Dual encoders of photos and sentences, which teach term vectors, and a tuned network."""

from __future__ import annotations

import math
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sparta.adapt.fit import BLOCK, Texts, Views, contrast
from sparta.networks.lite import DEVIATION, MEAN, EfficientNetLite, order_channels_last
from sparta.vse.encoders import ImageHead, TextHead, WholeProjection
from sparta.vse.model import VseModel
from training.terms.config import TermVectorsConfig, TuneConfig

START = 1 / 0.07  # inverse temperature at the start
COLDEST = 100.0  # and at most
TEXT_DROPOUT = 0.2


class DualEncoder(nn.Module):
    """Image head, text head, and the temperature of their cosines.

    Features [N, d] of photos give the image head's scale; `width` is that of the sentence encoder's
    vectors, `terms` V, the number of word pieces.
    """

    def __init__(self, config: TermVectorsConfig, features: Tensor, width: int, terms: int):
        super().__init__()
        size, dropout = config.model.size, config.teachers.dropout
        self.image = ImageHead(features.shape[1], config.model.width, size + 1, dropout)
        self.image.standardise(features)
        self.text = TextHead(width, terms, size, TEXT_DROPOUT)
        if not config.teachers.word_pieces:
            nn.init.zeros_(self.text.bag.weight)
            self.text.bag.requires_grad_(False)
        self.log_scale = nn.Parameter(torch.tensor(math.log(START)))

    @property
    def scale(self) -> Tensor:
        """One over the temperature."""
        return self.log_scale.exp().clamp(max=COLDEST)

    def loss(self, features: Tensor, texts: Texts, vectors: Tensor, photos: Tensor) -> Tensor:
        """Contrast of B photos with two captions of each, one after the other.

        `features` are [B, d] of a view of each photo, `photos` [B] their numbers, `vectors` [S, d]
        the sentence encoder's.
        """
        images = self.image.direction(features)
        rows = torch.cat([texts.caption_of(photos), texts.caption_of(photos)])
        device = self.log_scale.device
        found = self.text(vectors[rows].to(device), texts.terms[rows].to(device))
        both = [contrast(self.scale * part @ images.T) for part in found.chunk(2)]
        return (both[0] + both[1]) / 2

    @torch.inference_mode()
    def photo_vectors(self, views: Views) -> Tensor:
        """[N, size] of all photos, the mean over their views."""
        total = [self.image.direction(part.float()) for part in views.features]
        return F.normalize(sum(total[1:], start=total[0]), dim=-1)

    @torch.inference_mode()
    def text_vectors(self, texts: Texts, vectors: Tensor) -> Tensor:
        """[S, size] float16 of all sentences."""
        parts = zip(vectors.split(BLOCK), texts.terms.split(BLOCK), strict=True)
        return torch.cat([self.text(part, terms).half() for part, terms in parts])

    def teaches(self, views: Views, texts: Texts, vectors: Tensor) -> tuple[float, Tensor, Tensor]:
        """A part of `Teachers`."""
        return self.scale.item(), self.text_vectors(texts, vectors), self.photo_vectors(views)

    @torch.no_grad()
    def save(self, dense: VseModel, folder: Path) -> None:
        """Write a dense model that encodes as this one does, over the same sentence encoder."""
        projection, tokenizer = dense.visual_projections[0], dense.tokenizer
        assert isinstance(projection, WholeProjection) and tokenizer is not None
        projection.head.load_state_dict(self.image.state_dict())
        dense.text_head.load_state_dict(self.text.state_dict())
        # Training left out start, end and unknown words, which a text of the model has.
        others = torch.ones(len(tokenizer), dtype=torch.bool)
        others[tokenizer.ordinary_ids] = False
        dense.text_head.bag.weight[:-1][others] = 0
        dense.config.temperature = 1 / self.scale.item()
        dense.save_pretrained(folder)


# ---- tuning a vision network: what captions tell apart moves apart in it ------------------------

# Random changes of a photo, from the least to the most.
AREA = (0.4, 1.0)  # of the part that is shown
SHAPE = (-0.35, 0.35)  # logarithm of its width over its height, in the photo's
COLOUR = (0.6, 1.4)  # saturation
CONTRAST = (0.7, 1.3)
LIGHT = (0.75, 1.25)
GREY = 0.08  # share of photos without colour


class TunedEncoder(nn.Module):
    """A dual encoder that reads photos [N, 3, side, side] uint8 through a network in training."""

    def __init__(
        self, network: EfficientNetLite, member: DualEncoder, settings: TuneConfig, pixels: Tensor
    ) -> None:
        super().__init__()
        self.network, self.member, self.settings, self.pixels = network, member, settings, pixels
        order_channels_last(network)
        network.requires_grad_(False)
        for parameter in network.late_parameters(settings.frozen_stages):
            parameter.requires_grad_(True)

    def optimiser(self) -> torch.optim.Optimizer:
        """AdamW, slower for the network than for the heads."""
        rate = self.settings.learning_rate
        network = self.network.late_parameters(self.settings.frozen_stages)
        groups = [
            {"params": network, "lr": rate, "weight_decay": 0.05},
            {"params": list(self.member.parameters()), "lr": 5 * rate, "weight_decay": 0.1},
        ]
        return torch.optim.AdamW(groups, betas=(0.9, 0.98))

    def draw(self, photos: Tensor) -> Tensor:
        """[B] numbers of photos to features [B, d] of a random view of each."""
        kind, stages = self.pixels.device.type, self.settings.frozen_stages
        values = (varied(self.pixels[photos.to(self.pixels.device)].float()) - MEAN) / DEVIATION
        values = values.contiguous(memory_format=torch.channels_last)
        with torch.autocast(kind, torch.bfloat16, enabled=kind == "cuda"):
            with torch.no_grad():
                early = self.network.early(values, stages)
            return self.network.late(early, stages).float().mean(dim=(2, 3))


def varied(pixels: Tensor) -> Tensor:
    """Random parts of photos, half of them mirrored, in other light, some of them grey.

    Pixels are [B, 3, side, side] float32, 0 to 255; so is the result.
    """
    count, device = len(pixels), pixels.device

    def drawn(low: float, high: float) -> Tensor:
        return torch.empty(count, 1, 1, 1, device=device).uniform_(low, high)

    area, shape = drawn(*AREA), drawn(*SHAPE).exp()
    width, height = (area * shape).sqrt().clamp(max=1), (area / shape).sqrt().clamp(max=1)
    mirror = torch.where(drawn(0, 1) < 0.5, -1.0, 1.0)
    corners = torch.zeros(count, 2, 3, device=device)
    corners[:, 0, 0], corners[:, 1, 1] = (width * mirror).flatten(), height.flatten()
    corners[:, 0, 2] = (drawn(-1, 1) * (1 - width)).flatten()
    corners[:, 1, 2] = (drawn(-1, 1) * (1 - height)).flatten()
    grid = F.affine_grid(corners, list(pixels.shape), align_corners=False)
    found = F.grid_sample(pixels, grid, align_corners=False, padding_mode="border")
    grey = found.mean(dim=1, keepdim=True)
    found = grey + (found - grey) * drawn(*COLOUR) * (drawn(0, 1) > GREY)
    middle = grey.mean(dim=(2, 3), keepdim=True)
    found = middle + (found - middle) * drawn(*CONTRAST)
    return (found * drawn(*LIGHT)).clamp(0, 255)
