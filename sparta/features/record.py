"""The record every feature reader produces and every model consumes, and what made it."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sparta.json_values import Json

FeatureKind = Literal["region", "grid", "patch", "pixels"]
REGIONS = 36  # of a detector, an image keeps
SKIPPED = "skipped.jsonl"
METADATA = "metadata.jsonl"  # that an import found
JOINT = "joint"  # space of vectors: that of a dual encoder's two towers
FLOAT32, BFLOAT16 = "float32", "bfloat16"  # precisions of a network


@dataclass(frozen=True)
class ImageFeatures:
    """One image as its regions (VisualSparta section 3.1.2).

    Attributes:
        image_id: the photo's path relative to its folder, with forward slashes.
        features: [n, d] float16, one visual vector per region.
        boxes: [n, 4] float32, x1, y1, x2, y2 relative to width and height (0 to 1).
        labels: n strings, a detector's or classifier's words for each region ("" for none).
        attributes: n strings such as "brown" ("" for none).
        width: of the upright photo in pixels.
        height: of the upright photo in pixels.

    Raises:
        ValueError: if the parts disagree about n, or a box lies outside the photo.
    """

    image_id: str
    features: NDArray[np.float16]
    boxes: NDArray[np.float32]
    labels: tuple[str, ...]
    attributes: tuple[str, ...]
    width: int
    height: int

    def __post_init__(self) -> None:
        n = len(self.features)
        counts = {"boxes": len(self.boxes), "labels": len(self.labels)}
        counts["attributes"] = len(self.attributes)
        wrong = {name: count for name, count in counts.items() if count != n}
        if self.features.ndim != 2 or self.boxes.shape[1:] != (4,) or wrong:
            raise ValueError(
                f"{self.image_id}: features {self.features.shape}, boxes {self.boxes.shape}, "
                f"{len(self.labels)} labels, {len(self.attributes)} attributes: "
                "expected [n, d], [n, 4], n and n"
            )
        if n and not (self.boxes.min() >= 0 and self.boxes.max() <= 1):
            raise ValueError(f"{self.image_id}: boxes must be relative, between 0 and 1")

    @property
    def locations(self) -> NDArray[np.float32]:
        """[n, 6] float32: x1, y1, x2, y2, width, height, in the order of Oscar's files.

        Equation 3 prints another order (xmin, xmax, ymin, ymax, w, h); Oscar's weights need this.
        """
        sides = self.boxes[:, 2:] - self.boxes[:, :2]
        return np.concatenate([self.boxes, sides], axis=1)

    def take(self, rows: NDArray[np.integer]) -> ImageFeatures:
        """Some of the regions, [k] rows in the order given."""
        return replace(
            self,
            features=self.features[rows],
            boxes=self.boxes[rows],
            labels=tuple(self.labels[row] for row in rows),
            attributes=tuple(self.attributes[row] for row in rows),
        )


@dataclass(frozen=True)
class FeatureSource:
    """What made the features of a store, and so what a model trained on them expects.

    Attributes:
        kind: "region" (a detector's), "grid" (cells of a CNN), "patch" (tokens of a ViT)
            or "pixels" (raw pixel patches).
        backbone: hub name or folder the backbone was loaded from, or "pixels"; "" where a
            detector gives the vectors too.
        weights: hash of the backbone's weights ("" for pixels or none); decides equality, not
            the name.
        dimension: d of the features.
        image_size: side in pixels of the square the photo is resized to, 0 without a backbone.
        label_count: classes of the backbone's own classifier given to the whole-photo region.
        extra: whatever else decides the features; of a detector, hash of its weights and how its
            regions are chosen; "space" where it is `JOINT`; "grid" where a backbone's cells are
            averaged to fewer on a side;
            "precision" where a network did not compute in float32.
        detector: hub name or folder the detector was loaded from, "" for none.
    """

    kind: FeatureKind
    backbone: str
    weights: str
    dimension: int
    image_size: int
    label_count: int = 0
    extra: Json = field(default_factory=dict)
    detector: str = ""

    @property
    def content(self) -> Json:
        """What decides the features: all but the names under which networks were loaded."""
        return {
            name: value
            for name, value in asdict(self).items()
            if name not in ("backbone", "detector")
        }

    @property
    def precision(self) -> str:
        """What the backbone computed in, "float32" or "bfloat16"."""
        return str(self.extra.get("precision", FLOAT32))

    @property
    def unknown_encoder(self) -> bool:
        """Whether the features are embeddings of a dual encoder that is not recorded."""
        return self.extra.get("space") == JOINT and not self.weights

    def differences(self, other: FeatureSource) -> list[str]:
        """Where another source would give other features, field by field ([] if equal).

        The precision is no difference: models recall the same with features of either. Nor are
        embeddings of an unknown dual encoder, which are taken on trust, if `dimension` is the same.
        """
        mine, theirs = self.content, other.content
        for one in (mine, theirs):
            one["extra"].pop("precision", None)
        trusted = other.unknown_encoder and self.extra.get("space") == JOINT
        return [
            f"{name}: {mine[name]!r} against {theirs[name]!r}"
            for name in (["dimension"] if trusted else mine)
            if mine[name] != theirs[name]
        ]


@dataclass(frozen=True)
class DetectorSettings:
    """Which of a detector's regions to keep, and whether to name their colours.

    Attributes:
        detector: hub name or folder of a checkpoint.
        regions: how many to keep at most, highest confidence first; the whole photo is added.
        threshold: confidence a region needs.
        colours: whether regions get a colour as their attribute.
    """

    detector: str
    regions: int = REGIONS
    threshold: float = 0.05
    colours: bool = False

    @classmethod
    def of(cls, source: FeatureSource) -> DetectorSettings | None:
        """What made a store's regions; None if no detector did."""
        if not source.detector:
            return None
        extra = source.extra
        return cls(source.detector, extra["regions"], extra["threshold"], extra["colours"])

    def kept(self, confidences: NDArray[np.float32]) -> NDArray[np.int64]:
        """Rows of the regions to keep, by decreasing confidence, ties in their order."""
        order = np.argsort(-confidences, kind="stable")[: self.regions]
        return order[confidences[order] >= self.threshold]


def precision_of(fingerprint: str) -> str:
    """The precision of a feature store's backbone, which its fingerprint names."""
    return fingerprint.partition("-")[0] if "-" in fingerprint else FLOAT32


def extract_command(source: FeatureSource) -> str:
    """The command line that makes features of a source."""
    options = f"--image-size {source.image_size} --labels {source.label_count}"
    if "grid" in source.extra:
        options += f" --grid {source.extra['grid']}"
    pooled = f"--backbone {source.backbone} {options}"
    detection = DetectorSettings.of(source)
    if detection is None:
        if source.kind == "region":
            return f"sparta import of files of {source.backbone}"
        return f"sparta extract PHOTOS {pooled}"
    chosen = (
        f"sparta extract PHOTOS --detector {detection.detector} --regions {detection.regions} "
        f"--threshold {detection.threshold}{' --colours' if detection.colours else ''}"
    )
    return f"{chosen} {pooled}" if source.backbone else chosen


WARNING = "warning: "  # how the reason begins


@dataclass(frozen=True)
class Skipped:
    """A photo that could not be used, and why; as a warning, one that was used in spite of it."""

    image_id: str
    reason: str

    @property
    def warning(self) -> bool:
        """Whether the photo was used."""
        return self.reason.startswith(WARNING)

    def __str__(self) -> str:
        return f"{'' if self.warning else 'skipped '}{self.image_id}: {self.reason}"


def skipped_summary(folder: Path) -> str | None:
    """One line about the photos that a feature store lacks or that have warnings, None for none."""
    path, listed = folder / SKIPPED, read_skipped(folder)
    reasons = Counter(one.reason for one in listed if not one.warning)
    warned = len(listed) - reasons.total()
    read = f"{warned} photos were read with warnings"
    if not reasons:
        return f"{read}: see {path}" if warned else None
    ((reason, count),), more = reasons.most_common(1), f"; {read}" if warned else ""
    return (
        f"{reasons.total()} photos could not be used: see {path}; {count} of them: {reason}{more}"
    )


def read_skipped(folder: Path) -> list[Skipped]:
    """The photos that the feature store in a folder lacks, and warnings about those it has."""
    path = folder / SKIPPED
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return [Skipped(**json.loads(line)) for line in lines]
