"""Tuning a vision network with a dual encoder: what captions tell apart moves apart in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional as F

from sparta.errors import InputError
from sparta.extract.photos import Augmentation, Decoder, Photo
from sparta.networks.backbone import pick_device
from sparta.networks.encoder import (
    is_lite,
    scale_of,
    weights_file,
)
from sparta.networks.lite import DEVIATION, MEAN, RESAMPLE, EfficientNetLite, order_channels_last
from sparta.progress import Progress
from training.terms.config import TermVectorsConfig, TuneConfig
from training.terms.data import Texts
from training.terms.models import DualEncoder
from training.terms.steps import Plan, optimise

# Random changes of a photo, from the least to the most.
AREA = (0.4, 1.0)  # of the part that is shown
SHAPE = (-0.35, 0.35)  # logarithm of its width over its height, in the photo's
COLOUR = (0.6, 1.4)  # saturation
CONTRAST = (0.7, 1.3)
LIGHT = (0.75, 1.25)
GREY = 0.08  # share of photos without colour


def check_tune(config: TermVectorsConfig) -> None:
    """Refuse to tune anything but EfficientNet-Lite2 on photos.

    Raises:
        InputError: if there are no photos, or another backbone.
    """
    data = config.data
    if data.photos is None or data.backbone is None or not is_lite(data.backbone):
        raise InputError("tune: give data.photos, and efficientnet-lite2 as data.backbone")


def tune(
    config: TermVectorsConfig,
    member: DualEncoder,
    texts: Texts,
    image_ids: Sequence[str],
    out: Path,
    progress: Progress,
) -> Path:
    """Train the backbone's later stages and the heads of a dual encoder on the photos themselves.

    The member was trained on the backbone's features. Reports progress of the stages "photos" and
    "tune".

    Returns:
        the file `out/backbone.safetensors`.

    Raises:
        InputError: if a photo cannot be read.
    """
    settings, data = config.tune, config.data
    assert settings is not None and data.photos is not None and data.backbone is not None
    scale, device = scale_of(data.backbone), pick_device("auto")
    pixels = read_pixels(data.photos, image_ids, scale.side, partial(progress, "photos"))
    network = EfficientNetLite.from_file(scale, weights_file(data.backbone))
    tuned = TunedEncoder(network, member, settings, pixels.to(device)).to(device)
    optimise(
        tuned,
        tuned.optimiser(),
        lambda photos: member.loss(tuned.draw(photos), texts, photos),
        Plan(config, len(image_ids), settings.batch_size, settings.epochs, config.seed),
        out / "checkpoints" / "tune.pt",
        partial(progress, "tune"),
    )
    path = out / "backbone.safetensors"
    state = {name: value.half().cpu().contiguous() for name, value in network.state_dict().items()}
    save_file(state, path)
    return path


def read_pixels(
    folder: Path, image_ids: Sequence[str], side: int, progress: Callable[[int, int], None]
) -> Tensor:
    """[N, 3, side, side] uint8 of photos, stretched as features are extracted.

    Raises:
        InputError: if one cannot be read.
    """
    decoder = Decoder(folder, side, RESAMPLE, Augmentation("plain"))
    found = np.empty((len(image_ids), 3, side, side), np.uint8)
    for row, image_id in enumerate(image_ids):
        photo = decoder.decode(image_id)
        if not isinstance(photo, Photo):
            raise InputError(f"{folder / image_id}: {photo.reason}")
        found[row] = photo.pixels.transpose(2, 0, 1)
        progress(row + 1, len(image_ids))
    return torch.from_numpy(found)


class TunedEncoder(nn.Module):
    """A dual encoder that reads photos through a network in training.

    Args:
        network: batch norms folded.
        pixels: [N, 3, side, side] uint8.
    """

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
        rate, late = self.settings.learning_rate, self.settings.frozen_stages
        network = self.network.late_parameters(late)
        return torch.optim.AdamW(
            [
                {"params": network, "lr": rate, "weight_decay": 0.05},
                {"params": list(self.member.parameters()), "lr": 5 * rate, "weight_decay": 0.1},
            ],
            betas=(0.9, 0.98),
        )

    def draw(self, photos: Tensor) -> Tensor:
        """[B] numbers of photos to features [B, d] of a random view of each."""
        kind, stages = self.pixels.device.type, self.settings.frozen_stages
        values = (varied(self.pixels[photos.to(self.pixels.device)].float()) - MEAN) / DEVIATION
        with torch.autocast(kind, torch.bfloat16, enabled=kind == "cuda"):
            with torch.no_grad():
                early = self.network.early(
                    values.contiguous(memory_format=torch.channels_last), stages
                )
            return self.network.late(early, stages).float().mean(dim=(2, 3))


def varied(pixels: Tensor) -> Tensor:
    """Random parts of photos, half of them mirrored, in other light, some of them grey.

    Args:
        pixels: [B, 3, side, side] float32, 0 to 255; so is the result.
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
