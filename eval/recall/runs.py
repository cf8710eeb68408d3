"""What to measure a run of `sparta train` on: its own features and held-out photos."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eval.recall.photos import Store
from sparta.captions.matching import stored_ids
from sparta.captions.read import CaptionedPhoto, read_captions
from sparta.errors import InputError
from sparta.yaml_file import read_yaml

MODEL, SETTINGS, STORES, HELD_OUT = "model", "config.yaml", "features.json", "held-out.jsonl"
SPLIT = "val"


@dataclass(frozen=True)
class Measured:
    """Models, what they read, and the photos to measure them on."""

    models: list[str]  # folders or hub names
    features: list[Path]  # feature stores or photos, one for each model or one for all
    captions: Path  # a file or folder
    split: str  # of the captions
    all_captions: Path  # the captions of other splits

    @classmethod
    def of(
        cls,
        models: Sequence[str],
        features: Sequence[Path],
        captions: Path | None,
        split: str | None,
    ) -> Measured:
        """Complete what was given by what the runs among the models record.

        Args:
            models: folders of runs or of models, or hub names.
            features: none for those of the runs.
            captions: None for the run's photos: of `split`, or without one the held-out ones.
            split: None for "val" where captions are given.

        Raises:
            InputError: if a run has no model yet, or something is neither given nor recorded.
        """
        runs = {name: Path(name) for name in models if (Path(name) / SETTINGS).is_file()}
        for run in runs.values():
            if not (run / MODEL).is_dir():
                raise InputError(f"{run} has no model yet: `sparta train … --out {run} --resume`")
        folders = [*features]
        for name in models if not folders else ():
            if name not in runs:
                raise InputError(
                    f"--features: {name} is no run of sparta train: give the features that the "
                    "model was trained on"
                )
            folders.append(_features(runs[name]))
        names = [str(runs[name] / MODEL) if name in runs else name for name in models]
        if captions is not None:
            split = SPLIT if split is None else split
            return cls(names, folders, captions, split, captions)
        data = next(map(_data, runs.values()), {})
        if not data.get("captions"):
            raise InputError("--captions: give captioned photos")
        whole = Path(data["captions"])
        if split is not None:
            return cls(names, folders, whole, split, whole)
        own = [run / HELD_OUT for run in runs.values()]
        if not all(path.is_file() and path.stat().st_size for path in own):
            raise InputError(f"{min(runs)} held out no photos: give --split, or --captions, too")
        if len({path.read_bytes() for path in own}) > 1:
            raise InputError("the runs held out different photos: give --split, or --captions, too")
        return cls(names, folders, own[0], SPLIT, whole)

    def photos(self) -> list[CaptionedPhoto]:
        """The captioned photos to measure on."""
        return read_captions(self.captions, self.split)

    def others(self, split: str, store: Store) -> list[str]:
        """Ids of the photos of another split, of which none is measured.

        A run lists its held-out photos under the ids of its features: `store` tells which they are.
        """
        stored, where = set(store.ids), str(store.folder)
        own = stored_ids((photo.image_id for photo in self.photos()), stored, where)
        found = [photo.image_id for photo in read_captions(self.all_captions, split)]
        others, measured = stored_ids(found, stored, where), {*own.values()}
        return [one for one in found if others.get(one) not in measured]


def _data(run: Path) -> dict[str, Any]:
    data = read_yaml(run / SETTINGS).get("data")
    return data if isinstance(data, dict) else {}


def _features(run: Path) -> Path:
    """The plain features of a run, or the photos that its model reads itself."""
    if (run / STORES).is_file():
        stores = json.loads((run / STORES).read_text(encoding="utf-8"))
        return Path(stores[0]["folder"])
    return Path(str(_data(run).get("photos")))
