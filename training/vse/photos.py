"""Photos as training examples, for a model with a vision network that is trained with it."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
from torch.utils.data import Dataset

from sparta.errors import InputError
from sparta.features.extract.photos import Crop, not_utf8
from sparta.features.record import SKIPPED
from sparta.vse.photo_folder import PhotoFolder, vision_source
from sparta.vse.tokenizer import TextTokenizer
from training.vse.config import VseAugmentationConfig, VseTrainConfig
from training.vse.pairs import CaptionWords, TrainingPair

log = logging.getLogger(__name__)


def check_photo_settings(config: VseTrainConfig) -> None:
    """Refuse data of a run with a vision network that are not photos alone.

    Raises:
        InputError: if the settings give no photos, or features beside them.
    """
    data = config.data
    extraction = data.backbone or data.grid or data.augmentations > 1
    if config.has_vision_network and (data.photos is None or data.features or extraction):
        raise InputError(
            "model.options.vision: a model with a vision network reads the photos themselves: give "
            "their folder as data.photos, without data.features, data.backbone, data.grid and "
            "data.augmentations"
        )


def open_photos(config: VseTrainConfig, out: Path) -> PhotoFolder:
    """The readable photos of a run with a vision network.

    Each photo is decoded once before training, so that a damaged one does not end the run halfway.
    As in an extraction, unreadable photos are left out and listed in `out/skipped.jsonl`.

    Raises:
        InputError: if no photo can be read; or as `check_photo_settings` or `vision_source` does.
    """
    data = config.data
    check_photo_settings(config)
    assert data.photos is not None
    folder = PhotoFolder(data.photos, vision_source(str(config.model.options["vision"])))
    skipped = folder.unreadable(config.workers)
    lines = [json.dumps(asdict(entry)) + "\n" for entry in skipped]
    (out / SKIPPED).write_text("".join(lines), encoding="utf-8")
    if skipped:
        log.warning("%d photos could not be used: see %s", len(skipped), out / SKIPPED)
    bad = {entry.image_id for entry in skipped}
    left = {one for one in folder.ids if one not in bad and not not_utf8(one)}
    if not left:
        raise InputError(
            f"{data.photos}: no photo could be used; see {out / SKIPPED} for the reasons"
        )
    return PhotoFolder(data.photos, folder.source, left)


class CaptionedPhotos(Dataset[TrainingPair]):
    """Pairs of photos and captions; crop and words are drawn per pair and epoch.

    Args:
        photos: the readable photos.
        image_ids: N of them.
        captions: of each photo.
        tokenizer: of the model.
        seed: of all draws.
        augmentation: of photos and words.
    """

    def __init__(
        self,
        photos: PhotoFolder,
        image_ids: Sequence[str],
        captions: Sequence[Sequence[str]],
        tokenizer: TextTokenizer,
        seed: int,
        augmentation: VseAugmentationConfig,
    ) -> None:
        self.photos = photos
        self.rows = [photos.index(image_id) for image_id in image_ids]
        self.words = CaptionWords(captions, tokenizer, augmentation.words)
        self.seed = seed
        self.augmentation = augmentation

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, key: tuple[int, int, int]) -> TrainingPair:
        epoch, photo, caption = key
        rng = np.random.default_rng((self.seed, epoch, photo, caption))
        ids = self.words.draw(photo, caption, rng)
        crop = draw_crop(rng) if self.augmentation.photos == "crop" else None
        return TrainingPair(photo, self.photos.show(self.rows[photo], crop), ids)


def draw_crop(rng: np.random.Generator) -> Crop:
    """A random crop of 60 to 100 % of both sides, mirrored half of the time.

    As in GPO's published code for models with a fine-tuned vision network.
    """
    share = rng.uniform(0.6, 1.0)
    left, top = rng.uniform(0, 1 - share, size=2).tolist()
    return Crop((left, top, left + share, top + share), bool(rng.random() < 0.5))
