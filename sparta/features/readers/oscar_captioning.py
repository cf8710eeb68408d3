"""Region features in the captioning data of Oscar: a YAML file that names TSVs with JSON cells."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from sparta.errors import InputError
from sparta.features.readers.oscar_base import OscarReader
from sparta.features.readers.parsing.base64_floats import as_rows, decode, row_width
from sparta.features.readers.parsing.detected_objects import (
    ATTRIBUTE_CONFIDENCE,
    OBJECTS,
    LabelledObjects,
    parse,
)
from sparta.features.readers.parsing.region_limit import RegionLimit
from sparta.features.readers.parsing.tsv.lines import TsvFile
from sparta.features.readers.parsing.tsv.photo_sizes import SizeTable

log = logging.getLogger(__name__)


class _Regions(BaseModel):
    model_config = ConfigDict(strict=True)
    num_boxes: int = Field(gt=0, lt=2**31)
    features: str


REGIONS = TypeAdapter(_Regions)


def fits(path: Path) -> bool:
    """Whether a path looks like such a YAML file, or a folder of them."""
    return any(_names_features(file) for file in _yaml_files(path))


class OscarCaptioningReader(OscarReader):
    """Images of one or more data sets, by row in order of their ids; one is in memory at a time.

    A YAML file names TSVs in its folder: `feature` (key, JSON of `num_boxes` and `features`, base64
    of the rows as little-endian floats, the last six of each its location), `label` (key, JSON
    list of objects) and `hw` (key, size of the photo). Without `hw` sizes are unknown, and labels
    that are not as many as regions cannot be matched by their boxes.

    Args:
        paths: of YAML files, or of folders with them.
        image_suffix: put behind each key to make the image id.
        name: what made the features; replaces the hash of the detector's weights.
        limit: of the regions and attributes to keep.

    Raises:
        InputError: if a YAML file names no features, or a file it names is missing or empty;
            further as `OscarReader`.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        image_suffix: str = "",
        name: str = "vinvl",
        limit: RegionLimit = RegionLimit(),
    ) -> None:
        above = limit.attributes_above(ATTRIBUTE_CONFIDENCE)
        parts = [_DataSet(file, above) for path in paths for file in _chosen(path)]
        super().__init__(parts, image_suffix, name, limit)


class _DataSet:
    def __init__(self, path: Path, above: float) -> None:
        self._above = above
        names = _read_yaml(path)
        if "feature" not in names:
            raise InputError(f"{path}: feature: it is missing; expected the name of a TSV")
        named = {
            part: path.parent / names[part] for part in ("feature", "label", "hw") if part in names
        }
        self.features = TsvFile(named["feature"])
        self.labels = TsvFile(named["label"]) if "label" in named else None
        self._sizes = SizeTable(named["hw"]) if "hw" in named else None
        self.files = [path, *named.values()]
        if self.labels is None:
            log.warning("%s names no labels: its regions have none", path)

    def width(self, entry: int) -> int:
        return row_width(*self._payload(entry))

    def values(self, entry: int, width: int) -> NDArray[np.floating[Any]]:
        count, payload, where = self._payload(entry)
        return as_rows(count, payload, width, where)

    def seen(self, key: str, entry: int | None) -> tuple[LabelledObjects, str]:
        width, height = self._sizes.size(key) if self._sizes else (0, 0)
        if self.labels is None or entry is None:
            where = self.features.where(self.features.first[key])
            return LabelledObjects(width=width, height=height), where
        where = self.labels.where(entry)
        _, text = self.labels.cells(entry, ("image key", "objects"))
        objects = parse(OBJECTS, text, where)
        return LabelledObjects.of(objects, width, height, where, self._above), where

    def _payload(self, entry: int) -> tuple[int, bytes, str]:
        """Number of regions, the bytes of their rows, and their place in the file."""
        where = self.features.where(entry)
        _, text = self.features.cells(entry, ("image key", "JSON"))
        found = parse(REGIONS, text, where)
        field = f"{where}: features"
        return found.num_boxes, decode(found.features, field), field


def _yaml_files(path: Path) -> list[Path]:
    files = sorted(path.glob("*.yaml")) if path.is_dir() else [path]
    return [file for file in files if file.suffix == ".yaml"]


def _chosen(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = [file for file in _yaml_files(path) if _names_features(file)]
    if not files:
        raise InputError(f"{path} holds no YAML file that names features")
    return files


def _names_features(path: Path) -> bool:
    try:
        return "feature" in _read_yaml(path)
    except InputError:
        return False


def _read_yaml(path: Path) -> dict[str, str]:
    try:
        found = yaml.safe_load(path.read_bytes())
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: not YAML: {str(error).splitlines()[0]}") from error
    if not isinstance(found, dict):
        raise InputError(f"{path}: expected names of files, one a line")
    return {key: name for key, name in found.items() if isinstance(name, str) and name}
