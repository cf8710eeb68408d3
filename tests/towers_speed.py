"""How fast image towers of known sizes read photos, in OpenVINO and in torch.

    python -m tests.towers_speed photos/ --images 48 --tower vit-b-32 --out tower-vit-b-32.json

Their weights are random, which the time does not depend on. Rates are photos a second, decoding
included, the median of the rounds.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np
import torch
import transformers
from numpy.typing import NDArray
from torch import nn
from transformers import PreTrainedTokenizerFast, SiglipImageProcessorPil

from eval.report import circumstances
from sparta.adapt.towers import CELLS
from sparta.extract.extractor import GridRegions, PooledGrid
from sparta.extract.job import PhotoWorker
from sparta.extract.photos import Augmentation, list_photos
from sparta.features.record import BFLOAT16, FLOAT32
from sparta.inference import computes_bfloat16, write_entry
from sparta.json_values import Json
from sparta.model_id import PHOTOS
from sparta.networks.backbone import Backbone
from sparta.networks.encoder import Encoder
from sparta.networks.load import convert_encoder, load_encoder

ROUNDS = 3  # in which the ways take turns; a rate is the median
BATCHES = (32, 4)  # photos torch gets at once: as many as OpenVINO, and as in `sparta extract`
EFFICIENTNET_B3 = {"width_coefficient": 1.2, "depth_coefficient": 1.4, "image_size": 352}
# Classes of transformers, and what differs from their defaults.
SIZES: dict[str, tuple[str, Json]] = {
    "vit-b-32": ("CLIP", {}),
    "vit-b-16": ("CLIP", {"vision_config": {"patch_size": 16}}),
    "siglip-b-16": ("Siglip", {}),
    # In place of MobileCLIP-S0's FastViT, which transformers lacks: 11.4 million weights, and 2.4
    # billion products for a photo. This one has 10.1 million, and 2.3 billion.
    "efficientnet-b3-352": ("Align", {"vision_config": EFFICIENTNET_B3, "projection_dim": 384}),
}


def random_encoder(name: str, folder: Path, text_layers: int = 12) -> None:
    """Write a dual encoder with random weights (seed 0) and BERT's word pieces.

    `sparta adapt` reads it. "vit-b-32" has the text tower of CLIP ViT-B/32, too.
    """
    kind, options = SIZES[name]
    special = {"pad_token": "[PAD]", "bos_token": "[CLS]", "eos_token": "[SEP]"}
    file = str(PHOTOS / "tokenizer.json")
    words = PreTrainedTokenizerFast(tokenizer_file=file, model_max_length=77, **special)
    text = {f"{name}_id": words.convert_tokens_to_ids(one) for name, one in special.items()}
    text |= {"num_hidden_layers": text_layers, "vocab_size": len(words)}
    config = getattr(transformers, f"{kind}Config")(text_config=text, **options)
    torch.manual_seed(0)
    model = getattr(transformers, f"{kind}Model")(config)
    for part in model.modules():
        if isinstance(part, nn.Conv2d):  # numbers that vanish would be slow
            nn.init.kaiming_normal_(part.weight)
    side = config.vision_config.image_size
    processor = SiglipImageProcessorPil(size={"height": side, "width": side})
    for one in (model, words, processor):
        one.save_pretrained(folder)


def measure(
    photos: Path, names: Sequence[str], images: int | None = None
) -> dict[str, dict[str, float]]:
    """Rates over the first `images` photos, by tower and by way; the first way is the index's."""
    ids = list(list_photos(photos))[:images]
    found: dict[str, dict[str, float]] = {}
    for name in names:
        with TemporaryDirectory() as folder:
            random_encoder(name, Path(folder) / "encoder", text_layers=1)
            ways = _ways(Path(folder))
            rates: dict[str, list[float]] = {way: [] for way in ways}
            for _ in range(ROUNDS):
                for way, encoder in ways.items():
                    rates[way].append(_rate(encoder, photos, ids))
            found[name] = {way: median(own) for way, own in rates.items()}
    return found


def _ways(folder: Path) -> dict[str, Encoder]:
    """The image tower of an encoder in a folder, in OpenVINO and in torch."""
    tower = Backbone(str(folder / "encoder"), device="cpu", joint=True)
    (folder / "tower").mkdir()
    write_entry(folder / "tower", convert_encoder(tower, folder / "tower"))
    converted = load_encoder(str(folder / "tower"), None, 0, "cpu", bfloat16=True, joint=True)
    ways: dict[str, Encoder] = {f"OpenVINO {converted.source.precision}": converted}
    precisions = [FLOAT32, *[BFLOAT16] * computes_bfloat16("cpu")]  # without it 5 times as slow
    for size in BATCHES:
        for precision in precisions:
            ways[f"torch {precision}, {size} at once"] = _Torch(tower, size, precision)
    return ways


class _Torch(Encoder):
    """A tower in torch, with a batch size and a precision."""

    def __init__(self, tower: Backbone, size: int, precision: str) -> None:
        self._tower, self._bfloat16, self.batch_size = tower, precision == BFLOAT16, size
        self.source, self.grid, self.resample = tower.source, tower.grid, tower.resample

    def encode(self, pixels: NDArray[np.uint8]) -> tuple[NDArray[np.float16], list[str]]:
        """See `Encoder.encode`."""
        with torch.autocast("cpu", torch.bfloat16, enabled=self._bfloat16):
            return self._tower.encode(pixels)


def _rate(encoder: Encoder, photos: Path, ids: Sequence[str]) -> float:
    """Photos a second, from files to regions, as `sparta index` extracts those of such a model."""
    size, side = encoder.batch_size, encoder.source.image_size
    encoder.encode(np.zeros((min(BATCHES), side, side, 3), np.uint8))  # warms up
    if min(encoder.grid) > CELLS:
        encoder = PooledGrid(encoder, CELLS)
    worker = PhotoWorker(GridRegions(encoder), photos, Augmentation("plain"), None)
    start = time.perf_counter()
    batches = (list(ids[first : first + size]) for first in range(0, len(ids), size))
    done = sum(len(good) for good, _ in worker(batches))
    return done / (time.perf_counter() - start)


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("photos", type=Path)
    parser.add_argument("--images", type=int)
    parser.add_argument("--tower", action="append", choices=[*SIZES], required=True)
    parser.add_argument("--out", type=Path, help="JSON file.")
    options = parser.parse_args()
    found = {
        "images": options.images,
        "rates": measure(options.photos, options.tower, options.images),
    }
    text = json.dumps({**circumstances(), "seed": 0, **found}, indent=1)
    print(text)  # noqa: T201
    if options.out:
        options.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
