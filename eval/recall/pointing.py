"""The pointing game (Zhang et al., 2016): do explanations of a name lie on objects of that name?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from rich.table import Table

from eval.recall.model import EvaluatedModel, Images, SparseModel
from sparta.captions.record import stored_ids
from sparta.errors import InputError
from sparta.features.record import ImageFeatures
from sparta.json_values import Json
from sparta.progress import Progress
from sparta.readers.base import parse
from sparta.readers.keyed_files import TsvFile
from sparta.readers.labels import LabelledObjects, overlaps
from sparta.readers.oscar import PREDICTION
from sparta.visualsparta.batch import ImagePadder

CONFIDENCE = 0.5  # that an object needs
LARGEST = 0.5  # share of the photo that the objects of a name may cover together
WAYS = {"box": "shown box", "part": "best cell or region", "centre": "middle of the photo"}
Boxes = NDArray[np.float32]  # [m, 4]


@dataclass(frozen=True)
class Pointing:
    """By each way the percentage of boxes whose middle is on an object, and their mean overlap."""

    seed: ClassVar[None] = None  # nothing is drawn at random
    members: Sequence[EvaluatedModel]  # one
    pairs: int  # of a photo and a name
    ways: dict[str, tuple[float, float]]

    def record(self) -> Json:
        """The figures for programs."""
        ways = {way: {"hits": own[0], "overlap": own[1]} for way, own in self.ways.items()}
        return {"pairs": self.pairs, **ways}

    def table(self) -> Table:
        """The figures for a terminal."""
        table = Table("", "hits", "overlap", title=f"{self.pairs:,} names of objects in photos")
        for way, (hits, overlap) in self.ways.items():
            table.add_row(WAYS[way], f"{hits:.1f} %", f"{overlap:.3f}")
        return table


def measure_pointing(member: EvaluatedModel, objects: Path, progress: Progress) -> Pointing:
    """Explain the names of objects that are one term, in the photos of a VinVL `predictions.tsv`.

    Raises InputError if the model reads labels or is dense, or there is no such object.
    """
    if not isinstance(member.model, SparseModel) or member.model.model.config.use_labels:
        raise InputError(f"{member.model.name} does not point at parts: give one without labels")
    named, store, found = _read(objects), member.store, list[NDArray[np.floating]]()
    keys = {own: key for key, own in stored_ids(named, {*store.ids}, str(store.folder)).items()}
    for _, [image] in Images(store, sorted(keys)).batches(1, progress):
        for boxes, right in _explained(member.model, image, named[keys[image.image_id]]):
            middles = (boxes[:, None, :2] + boxes[:, None, 2:]) / 2
            inside = (right[:, :2] <= middles) & (middles <= right[:, 2:])
            hits = 100 * np.any(inside.all(axis=2), axis=1)
            found.append(np.stack([hits, overlaps(boxes, right).max(axis=1)], axis=1))
    if not found:
        raise InputError(f"{objects} names nothing that is scored in photos of {store.folder}")
    means = [(hits, overlap) for hits, overlap in np.mean(found, axis=0).tolist()]
    return Pointing([member], len(found), dict(zip(WAYS, means, strict=True)))


def _read(path: Path) -> dict[str, dict[str, Boxes]]:
    """Photo → name → boxes of the confident objects."""
    file, found = TsvFile(path), dict[str, dict[str, Boxes]]()
    for entry, key in enumerate(file.keys):
        where = file.where(entry)
        one = parse(PREDICTION, file.cells(entry, ("image key", "JSON"))[1], where)
        seen = LabelledObjects.of(one.objects, one.image_w, one.image_h, where)
        if seen.boxes is None or seen.confidences is None:
            raise InputError(f"{where}: an object has no rect or no conf")
        names = np.where(seen.confidences >= CONFIDENCE, seen.labels, "")
        found[key] = {name: seen.boxes[names == name] for name in {*names.tolist()} - {""}}
    return found


@torch.inference_mode()
def _explained(
    model: SparseModel, image: ImageFeatures, objects: dict[str, Boxes]
) -> Iterator[tuple[Boxes, Boxes]]:
    """Of each name with a score, a box by each way [3, 4], and those of the objects [m, 4]."""
    own, ids = model.model, model.tokenizer.ids
    names = [one for one in sorted(objects) if one in ids and own.trained_terms[ids[one]]]
    batch = ImagePadder.of(model.tokenizer, own.config)([image]).to(own.device)
    terms = torch.tensor([ids[name] for name in names], dtype=torch.int64, device=own.device)
    vectors, windows = own.query_embedding(terms), own.windows(len(image.features))
    hidden, mask = own.contextualise(batch)
    best, shown = own.match(hidden, mask, vectors)
    parts = (own.parts(batch)[0] if own.head else hidden)[0, :-1] @ vectors.T
    cells = parts.argmax(dim=0)
    places = image.boxes if windows is None else windows.boxes
    for number, name in enumerate(names):
        sides = objects[name][:, 2:] - objects[name][:, :2]
        if own.activate(best)[0, number] > 0 and sides.prod(axis=1).sum() < LARGEST:
            boxes = places[shown[0, number]], image.boxes[cells[number]], [0.25, 0.25, 0.75, 0.75]
            yield np.array(boxes, np.float32), objects[name]
