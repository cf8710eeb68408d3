"""Region features in the files of VinVL and Oscar+: `features.tsv` and `predictions.tsv`."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sparta.errors import InputError
from sparta.features.check import TOLERANCE, check_features, check_locations
from sparta.features.choice import RegionChoice
from sparta.features.convert import named_source
from sparta.features.record import ImageFeatures
from sparta.features.tsv import TsvFile

FEATURES = "features.tsv"
PREDICTIONS = "predictions.tsv"
LOCATION = 6  # numbers at the end of each row


class _Object(BaseModel):
    model_config = ConfigDict(strict=True)
    label: str = Field(alias="class")
    attributes: list[str] = []


class _Prediction(BaseModel):
    model_config = ConfigDict(strict=True)
    image_h: int = Field(gt=0)
    image_w: int = Field(gt=0)
    objects: list[_Object]


def fits(path: Path) -> bool:
    """Whether a path looks like a folder of these files."""
    return (path / FEATURES).is_file() and (path / PREDICTIONS).is_file()


class VinvlReader:
    """Images of one or more folders, by row in order of their ids; one is in memory at a time.

    A folder holds `features.tsv` (key, number of regions n, base64 of n rows of little-endian
    floats, the last six of each its location: x1/W, y1/H, x2/W, y2/H, w/W, h/H) and
    `predictions.tsv` (key, JSON of `image_h`, `image_w` and the regions' `objects`).

    Args:
        folders: whose images are put together, such as those of train and val.
        image_suffix: put behind each key to make the image id (".jpg" where captions speak of
            files and keys do not).
        name: what made the features; stands for the detector's weights.

    Attributes:
        source: kind "region"; the dimension is without the location.
        ids: of the images, rising.
        files: those read.

    Raises:
        InputError: naming file, line and field, if a file is missing, an image is twice in the
            folders, has labels but no features, or features but no labels. Reading an image
            raises it if its line is cut, its features or its box are odd, or there are not as
            many objects as regions.
    """

    def __init__(
        self,
        folders: Sequence[Path],
        image_suffix: str = "",
        name: str = "vinvl",
        choice: RegionChoice = RegionChoice(),
    ) -> None:
        self._choice = choice
        self._suffix = image_suffix
        self._features = [TsvFile(folder / FEATURES) for folder in folders]
        self._predictions = [TsvFile(folder / PREDICTIONS) for folder in folders]
        self.files: Sequence[Path] = [file.path for file in (*self._features, *self._predictions)]
        self._lines = [self._match(part) for part in range(len(folders))]
        self._rows = self._order()
        self.ids: Sequence[str] = [row[0] for row in self._rows]
        self._width = self._first_width()
        self.source = named_source(name, self._width - LOCATION)

    def __getitem__(self, row: int) -> ImageFeatures:
        """The image of one row.

        Raises:
            InputError: if it is malformed, naming file, line and field.
        """
        image_id, part, line = self._rows[row]
        where = self._features[part].where(line)
        values = self._values(part, line)
        prediction, predicted = self._prediction(part, line)
        if len(prediction.objects) != len(values):
            raise InputError(
                f"{predicted}: objects: expected {len(values)}, one for each row of features in "
                f"{where}, found {len(prediction.objects)}"
            )
        return ImageFeatures(
            image_id,
            check_features(values[:, :-LOCATION], where),
            check_locations(values[:, -LOCATION:], where),
            tuple(found.label for found in prediction.objects),
            tuple(" ".join(found.attributes) for found in prediction.objects),
            prediction.image_w,
            prediction.image_h,
        )

    def _match(self, part: int) -> list[int]:
        """For each line of features the line of predictions."""
        features, predictions = self._features[part], self._predictions[part]
        known = {key: line for line, key in enumerate(predictions.keys)}
        for line, key in enumerate(features.keys):
            if key not in known:
                raise InputError(
                    f"{features.where(line)}: image {key!r} is not in {predictions.path}"
                )
        for key in known.keys() - set(features.keys):
            raise InputError(
                f"{predictions.where(known[key])}: image {key!r} is not in {features.path}"
            )
        return [known[key] for key in features.keys]

    def _order(self) -> list[tuple[str, int, int]]:
        """Image id, folder and line of each image, by id."""
        found: dict[str, tuple[int, int]] = {}
        for part, features in enumerate(self._features):
            for line, key in enumerate(features.keys):
                if key in found:
                    before, first = found[key]
                    raise InputError(
                        f"{features.where(line)}: image {key!r} was already in "
                        f"{self._features[before].where(first)}"
                    )
                found[key] = part, line
        return sorted((key + self._suffix, part, line) for key, (part, line) in found.items())

    def _first_width(self) -> int:
        """Numbers per row, by which the float type of each line shows in its length.

        Published files have 2054, here 4 or 2 bytes each. Other detectors have other widths; the
        type of the very first line is then seen from its locations: float32 read as float16 has
        numbers above 1 among them.
        """
        count, payload = self._payload(0, 0)
        width, rest = divmod(len(payload), 2 * count)
        if not rest and width % 2 == 0:
            ends = np.frombuffer(payload, "<f2").reshape(count, width)[:, -LOCATION:]
            width //= 2 if (ends > 1 + TOLERANCE).any() else 1
        if rest or width <= LOCATION:
            raise InputError(
                f"{self._features[0].where(0)}: features: {len(payload)} bytes are not {count} "
                f"rows of more than {LOCATION} floats"
            )
        return width

    def _values(self, part: int, line: int) -> NDArray[np.floating]:
        """All numbers of a line, [n, d + 6] float32 or float16 as they are stored."""
        count, payload = self._payload(part, line)
        types = {4 * count * self._width: "<f4", 2 * count * self._width: "<f2"}
        if len(payload) not in types:
            raise InputError(
                f"{self._features[part].where(line)}: features: expected {count} rows of "
                f"{self._width} numbers, {' or '.join(map(str, types))} bytes, found "
                f"{len(payload)}"
            )
        return np.frombuffer(payload, types[len(payload)]).reshape(count, self._width)

    def _payload(self, part: int, line: int) -> tuple[int, bytes]:
        """Number of regions and the bytes of their rows."""
        file = self._features[part]
        _, number, text = file.cells(line, ("image key", "number of regions", "features"))
        if not number.isdigit() or not int(number):
            raise InputError(
                f"{file.where(line)}: number of regions: expected 1 or more, found "
                f"{number[:20].decode(errors='replace')!r}"
            )
        try:
            return int(number), base64.b64decode(text, validate=True)
        except binascii.Error as error:
            raise InputError(
                f"{file.where(line)}: features: not base64 ({error}); the line may be cut"
            ) from error

    def _prediction(self, part: int, line: int) -> tuple[_Prediction, str]:
        """What was seen in the image of a line of features, and where that stands."""
        file, line = self._predictions[part], self._lines[part][line]
        _, text = file.cells(line, ("image key", "JSON"))
        try:
            return _Prediction.model_validate_json(text), file.where(line)
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(map(str, first["loc"])) or "JSON"
            raise InputError(f"{file.where(line)}: {field}: {first['msg']}") from error
