"""Checkpoints of the timm library, in the form in which transformers presents its own."""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import isqrt
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
from PIL import Image
from torch import Tensor, nn

from sparta.errors import InputError, first_line
from sparta.extras import require
from sparta.model_id import find_file


class Square(NamedTuple):
    """The size of a network's photos in pixels."""

    height: int


@dataclass(frozen=True)
class TimmProcessor:
    """Preprocessing as a checkpoint's `config.json` states it; transformers' needs torchvision.

    Attributes:
        image_mean: of red, green and blue between 0 and 1.
        image_std: likewise.
        size: of the photos.
        resample: Pillow's filter.
    """

    image_mean: list[float]
    image_std: list[float]
    size: Square
    resample: int
    do_normalize = do_rescale = True
    do_center_crop = False
    rescale_factor = 1 / 255


def timm_processor(name: str) -> TimmProcessor | None:
    """The preprocessing of a checkpoint of timm, None for any other.

    Args:
        name: hub name or folder.

    Raises:
        InputError: if timm cannot be imported, or the preprocessing is not stated.
    """
    path = find_file(name, "config.json")
    published = json.loads(path.read_text(encoding="utf-8")).get("pretrained_cfg") if path else None
    if published is None:
        return None
    _check_import()
    try:
        return TimmProcessor(
            published["mean"],
            published["std"],
            Square(published["input_size"][-1]),
            int(Image.Resampling[published["interpolation"].upper()]),
        )
    except KeyError as error:
        raise InputError(f"{path}: pretrained_cfg has no usable {error}") from error


def _check_import() -> None:
    try:
        require("timm")
    except RuntimeError as error:  # of torchvision, which timm imports
        raise InputError(
            f"timm cannot be imported ({first_line(error)}): install the torchvision that was "
            f"built for torch {torch.__version__}, from the same package index"
        ) from error


class TimmVision(nn.Module):
    """A network of timm as transformers wraps it, its output in one of two layouts.

    Args:
        wrapped: a `TimmWrapperModel`.
    """

    main_input_name = "pixel_values"

    def __init__(self, wrapped: Any) -> None:
        super().__init__()
        self.wrapped = wrapped
        self.config = wrapped.config

    def forward(self, pixel_values: Tensor) -> SimpleNamespace:
        """The last hidden state: [B, d, rows, columns], or patches [B, rows * columns, d].

        Raises:
            ValueError: if the network does not take photos of this size, or its tokens do not form
                a square.
        """
        try:
            hidden = self.wrapped(pixel_values=pixel_values).last_hidden_state
        except AssertionError as error:
            raise ValueError(str(error)) from error
        network = self.wrapped.timm_model
        if hidden.ndim == 4:
            last = getattr(network, "output_fmt", "NCHW") == "NHWC"
            return SimpleNamespace(last_hidden_state=hidden.permute(0, 3, 1, 2) if last else hidden)
        patches = hidden[:, getattr(network, "num_prefix_tokens", 0) :]
        if isqrt(patches.shape[1]) ** 2 != patches.shape[1]:
            raise ValueError(f"{patches.shape[1]} tokens do not form a square")
        return SimpleNamespace(last_hidden_state=patches)
