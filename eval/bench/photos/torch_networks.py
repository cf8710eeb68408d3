"""The networks in torch, beside which the runtime of the command is measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from indexer.encoding.models import load_models
from sparta.features.extract.extractor import Extractor
from sparta.features.extract.grid import GridRegions
from sparta.features.extract.networks.backbone import Backbone
from sparta.features.extract.networks.encoder import Encoder
from sparta.features.extract.networks.lite.backbone import LiteBackbone
from sparta.features.extract.networks.lite.weights import is_lite
from sparta.features.extract.networks.pooled_grid import PooledGrid
from sparta.features.record import FeatureSource
from sparta.features.store import FeatureStore
from sparta.visualsparta.collate import ImageCollator


def torch_extractor(source: FeatureSource) -> Extractor | None:
    """The backbone of some features in torch; None for pixels and for detectors' regions."""
    if source.kind not in ("grid", "patch"):
        return None
    network: Encoder
    if is_lite(source.backbone):
        network = LiteBackbone(source.backbone, source.image_size, "cpu")
    else:
        network = Backbone(source.backbone, source.image_size, source.label_count, "cpu")
    grid = source.extra.get("grid")
    return GridRegions(PooledGrid(network, grid) if grid else network)


def torch_scores(store: FeatureStore, model: str) -> Callable[[Sequence[int]], object]:
    """A function that computes the trained terms' scores of some rows of a store."""
    (network,), tokenizer = load_models([model], torch.device("cpu"))
    collate = ImageCollator.of(tokenizer, network.config)
    wanted = torch.from_numpy(tokenizer.indexable) & network.trained_terms
    return lambda rows: network.term_scores(collate([store[row] for row in rows]), wanted)
