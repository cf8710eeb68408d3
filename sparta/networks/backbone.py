"""Vision networks of the transformers library as sources of regions."""

from __future__ import annotations

import inspect
import threading
from math import isqrt
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from sparta.errors import InputError
from sparta.features.record import JOINT, FeatureKind, FeatureSource
from sparta.model_id import pinned_name
from sparta.networks.encoder import Encoder, best_classes, weights_hash
from sparta.networks.pretrained import (
    Preprocessing,
    class_names,
    load_model,
    load_preprocessing,
)

MAX_PREFIX = 16  # class and register tokens before the patches
# One batch at a time: more would take more of a GPU's memory, and each other's cores.
_turn = threading.Lock()


class Adapter(nn.Module):
    """Wraps a network that is not called with pixels, or gives no plain layout.

    It is called with `pixel_values` [B, 3, side, side], and its `last_hidden_state` is
    [B, d, rows, columns], or [B, tokens, d] with the patches last.
    """

    def __init__(self, vision: Any) -> None:
        super().__init__()
        self.vision = vision
        self.config = vision.config


class NaflexVision(Adapter):
    """SigLIP 2 in NaFlex form (Tschannen et al., 2025), which is called with patches."""

    def forward(self, pixel_values: Tensor) -> SimpleNamespace:
        """The patches of square photos, [B, cells, d], row by row."""
        found = self.vision(**naflex_patches(pixel_values, self.config.patch_size))
        return SimpleNamespace(last_hidden_state=found.last_hidden_state)


def naflex_patches(pixel_values: Tensor, patch_size: int) -> dict[str, Tensor]:
    """The arguments of SigLIP 2 in NaFlex form for square photos [B, 3, side, side]."""
    batch, channels, side, _ = pixel_values.shape
    cells, rest = divmod(side, patch_size)
    if rest:
        raise ValueError(f"it needs a multiple of {patch_size}")
    parts = pixel_values.reshape(batch, channels, cells, side // cells, cells, side // cells)
    patches = parts.permute(0, 2, 4, 3, 5, 1).reshape(batch, cells * cells, -1)
    return {
        "pixel_values": patches,
        "pixel_attention_mask": torch.ones(patches.shape[:2], device=patches.device).int(),
        "spatial_shapes": torch.tensor([[cells, cells]] * batch, device=patches.device),
    }


class TokensOfCells(Adapter):
    """DINOv3's ConvNeXt (Siméoni et al., 2025), whose tokens are the mean and the cells."""

    def forward(self, pixel_values: Tensor) -> SimpleNamespace:
        """The cells of square photos, [B, d, rows, columns]."""
        cells = self.vision(pixel_values=pixel_values).last_hidden_state[:, 1:]
        rows = isqrt(cells.shape[1])
        return SimpleNamespace(last_hidden_state=cells.transpose(1, 2).unflatten(2, (rows, rows)))


class JointVision(Adapter):
    """The image tower of a dual encoder: vectors in the space that it shares with the text tower.

    A patch's vector is what the tower would make of a photo if its last layer saw nothing else.
    Towers of kinds not known here have no vectors of patches; their only cell is the whole photo.
    """

    def __init__(self, dual: Any) -> None:
        super().__init__(dual.vision_model)
        if isinstance(getattr(dual.vision_model, "pooler", None), nn.AvgPool2d):
            # ALIGN's, larger than any map, which OpenVINO refuses; the mean is the same.
            dual.vision_model.pooler = nn.AdaptiveAvgPool2d(1)
        self.dual = dual

    def forward(self, pixel_values: Tensor) -> SimpleNamespace:
        """Unit vectors [B, cells, d] of square photos, row by row, and of the whole photos [B, d].

        The former is called `last_hidden_state`, the latter `whole`.
        """
        given = {"pixel_values": pixel_values}
        if self.config.model_type == "siglip2_vision_model":
            given = naflex_patches(pixel_values, self.config.patch_size)
        found = self.dual.get_image_features(**given)
        whole = F.normalize(found.pooler_output, dim=-1)
        parts = self._parts(found.last_hidden_state)
        cells = whole[:, None] if parts is None else F.normalize(parts, dim=-1)
        return SimpleNamespace(last_hidden_state=cells, whole=whole)

    def _parts(self, hidden: Tensor) -> Any:
        vision, projection = self.vision, getattr(self.dual, "visual_projection", None)
        if hidden.ndim == 4:  # a CNN, whose whole photo is the mean of the cells (ALIGN)
            return hidden.flatten(2).transpose(1, 2)
        if projection is not None and hasattr(vision, "post_layernorm"):  # CLIP: CLS, then patches
            return projection(vision.post_layernorm(hidden[:, 1:]))
        if hasattr(vision, "head"):  # SigLIP: attention over patches
            alone = vision.head(hidden.flatten(0, 1)[:, None])
            return alone.unflatten(0, hidden.shape[:2])
        return None


ADAPTERS = {"siglip2_vision_model": NaflexVision, "dinov3_convnext": TokensOfCells}


class TorchEncoder(Encoder):
    """A network of torch, with its preprocessing, as an encoder."""

    # [B, side, side, 3] uint8 pixels to rows [B, cells + 1, d], and perhaps logits.
    network: nn.Module

    def __init__(self, device: str) -> None:
        self.device = pick_device(device)
        # On a CPU the feature maps of larger batches outgrow what malloc recycles (32 MB), and the
        # time goes into fresh pages: with MobileNetV2, 150 photos/s at 4 and 50 at 32.
        self.batch_size = 4 if self.device.type == "cpu" else 64
        self.classes: list[str] = []  # names of the logits

    def encode(self, pixels: NDArray[np.uint8]) -> tuple[NDArray[np.float16], list[str]]:
        """See `Encoder.encode`; in float32 and deterministic until the result is rounded."""
        flags = torch.backends.cudnn.flags(enabled=True, deterministic=True, allow_tf32=False)
        with _turn, torch.inference_mode(), flags:
            rows, *logits = self.network(torch.from_numpy(pixels).to(self.device))
        names = [""] * len(pixels)
        if logits:
            names = best_classes(logits[0].cpu().numpy(), self.classes, self.source.label_count)
        return rows.half().cpu().numpy(), names


class Backbone(TorchEncoder):
    """A CNN's feature map or a transformer's patch tokens, and their mean as the whole photo.

    Photos are stretched to the square, never cropped, so that boxes stay relative to the whole
    photo. Always float32 and in eval mode.

    Args:
        name: hub name or folder of a checkpoint.
        image_size: side of the square; the checkpoint's own by default.
        labels: how many of the classifier's top classes label the whole photo.
        joint: whether a dual encoder's vectors are those of `JointVision`.

    Raises:
        InputError: if the checkpoint is no vision network, lacks weights or a trained
            classifier, or its output cannot be laid on a grid.
    """

    def __init__(
        self,
        name: str,
        image_size: int | None = None,
        labels: int = 0,
        device: str = "auto",
        joint: bool = False,
    ) -> None:
        super().__init__(device)
        name = pinned_name(name)
        preprocessing = load_preprocessing(name, image_size)
        side, self.resample = preprocessing.side, preprocessing.resample
        classifier = load_model(name, "an image classifier") if labels else None
        self.classes = class_names(name, classifier.config) if classifier else []
        whole = classifier.base_model if classifier else load_model(name)
        vision = getattr(whole, "vision_model", whole)
        if vision.main_input_name != "pixel_values":
            raise InputError(f"{name}: {type(whole).__name__} is not a vision model")
        adapter = ADAPTERS.get(vision.config.model_type)
        if classifier and adapter:
            raise InputError(f"{name}: its classifier is not read here; leave out --labels")
        adapted = adapter(vision) if adapter else vision
        if joint:
            adapted = JointVision(whole)
        network = PhotoNetwork(adapted, classifier, preprocessing).eval()
        self.network = network.to(self.device, torch.float32)
        kind, self.grid, dimension = _probe(name, network)
        extra = {"space": JOINT} if joint else {}
        weights = weights_hash(name)
        self.source = FeatureSource(kind, name, weights, dimension, side, labels, extra)


class PhotoNetwork(nn.Module):
    """Pixels in, regions out: a vision network with its preprocessing."""

    def __init__(self, vision: Any, classifier: Any, preprocessing: Preprocessing) -> None:
        super().__init__()
        self.vision, self.classifier, self.preprocessing = vision, classifier, preprocessing
        # How many of the last tokens are patches, for networks of tokens; None for all.
        self.cells: int | None = None
        # Networks that do not interpolate position embeddings by default are asked to.
        able = "interpolate_pos_encoding" in inspect.signature(vision.forward).parameters
        wanted = able and vision.config.image_size != preprocessing.side
        self._options = {"interpolate_pos_encoding": True} if wanted else {}

    def forward(self, pixels: Tensor) -> tuple[Tensor, ...]:
        """[B, side, side, 3] uint8 to rows [B, cells + 1, d], the mean last; and logits [B, C]."""
        output, logits = self.output(pixels)
        hidden = output.last_hidden_state
        if hidden.ndim == 4:
            rows = hidden.flatten(2).transpose(1, 2)
        else:
            rows = hidden if self.cells is None else hidden[:, -self.cells :]
        whole = getattr(output, "whole", None)
        rows = with_whole(rows) if whole is None else torch.cat([rows, whole[:, None]], dim=1)
        return (rows,) if logits is None else (rows, logits)

    def output(self, pixels: Tensor) -> tuple[Any, Tensor | None]:
        """What the network gives, and logits, if any.

        Its `last_hidden_state` is [B, d, rows, columns] of a CNN, [B, tokens, d] of a transformer.
        """
        values = self.preprocessing(pixels.permute(0, 3, 1, 2))
        if self.classifier is None:
            return self.vision(pixel_values=values, **self._options), None
        # One pass gives both: the hook sees what the network hands to its classifier.
        seen: list[Any] = []
        hook = self.vision.register_forward_hook(
            lambda _module, _inputs, output: seen.append(output)
        )
        try:
            logits = self.classifier(pixel_values=values, **self._options).logits
        finally:
            hook.remove()
        return seen[0], logits


def _probe(name: str, network: PhotoNetwork) -> tuple[FeatureKind, tuple[int, int], int]:
    """Learn kind, grid and dimension from one black photo, and set the network's patches."""
    side = network.preprocessing.side
    device = next(network.parameters()).device
    with torch.inference_mode():
        try:
            output, _ = network.output(torch.zeros(1, side, side, 3, device=device).byte())
        except (TypeError, ValueError, RuntimeError) as error:
            raise InputError(
                f"{name} cannot read photos of {side} pixels ({error}); use another --image-size"
            ) from error
    hidden = output.last_hidden_state
    if hidden.ndim == 4:
        return "grid", (hidden.shape[2], hidden.shape[3]), hidden.shape[1]
    cells = patch_side(hidden.shape[1], side, network.vision.config)
    if cells is None:
        raise InputError(
            f"{name}: {hidden.shape[1]} tokens for {side} x {side} pixels do not form a square "
            "grid of patches; use an --image-size the network was made for"
        )
    network.cells = cells * cells
    return "patch", (cells, cells), hidden.shape[2]


def pick_device(name: str) -> torch.device:
    """The device of a name; "auto" takes a GPU if there is one."""
    if name == "auto":
        mps = "mps" if torch.backends.mps.is_available() else "cpu"
        return torch.device("cuda" if torch.cuda.is_available() else mps)
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise InputError(f"--device {name}: {str(error).splitlines()[0]}; try auto") from error


def with_whole(cells: Tensor) -> Tensor:
    """[B, cells, d] to [B, cells + 1, d], the mean of the cells last."""
    return torch.cat([cells, cells.mean(dim=1, keepdim=True)], dim=1)


def patch_side(tokens: int, side: int, config: Any) -> int | None:
    """Rows of the square grid the last tokens of a sequence form, None if they form none.

    Class and register tokens come first; networks that merge patches have no such tokens.
    """
    patch = getattr(config, "patch_size", None)
    patch = patch[0] if isinstance(patch, list | tuple) else patch
    if patch and 0 <= tokens - (side // patch) ** 2 <= MAX_PREFIX:
        return int(side // patch)
    return isqrt(tokens) if isqrt(tokens) ** 2 == tokens else None
