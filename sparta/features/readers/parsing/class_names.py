"""Numbered classes of regions, and their words, in files of the bottom-up-attention family."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparta.errors import InputError
from sparta.features.readers.parsing.text_lines import read_lines
from sparta.features.readers.parsing.validation import TOLERANCE

OBJECTS = "objects_vocab.txt"
ATTRIBUTES = "attributes_vocab.txt"
# Above it an attribute is shown in the demonstrations of bottom-up-attention and its descendants.
ATTRIBUTE_CONFIDENCE = 0.1


@dataclass(frozen=True)
class Classes:
    """The most probable object and attribute of n regions.

    Attributes:
        where: file and line, for messages.
        objects_id: [n] of any integer type.
        objects_conf: [n] of any float type, 0 to 1.
        attrs_id: [n] of any integer type; None from a detector without attributes.
        attrs_conf: [n] of any float type, 0 to 1.

    Raises:
        InputError: naming file, line and field, if a confidence is not between 0 and 1.
    """

    where: str
    objects_id: NDArray[Any]
    objects_conf: NDArray[Any]
    attrs_id: NDArray[Any] | None = None
    attrs_conf: NDArray[Any] | None = None

    def __post_init__(self) -> None:
        for name in ("objects_conf", "attrs_conf"):
            values = getattr(self, name)
            if values is None:
                continue
            for row in np.flatnonzero(~((values >= 0) & (values <= 1 + TOLERANCE)))[:1]:
                raise InputError(
                    f"{self.where}: {name}, row {row + 1}: expected 0 to 1, found {values[row]}"
                )


class Vocabulary:
    """The words of a file, one class a line; class 0 is the first, background has no line.

    A line may hold synonyms, separated by commas ("gray,grey"); the first of them is used.

    Attributes:
        path: the file.
        words: by class.

    Raises:
        InputError: if the file is absent, empty, not UTF-8, or a line is blank.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.words = [line.split(",")[0].strip() for line in read_lines(path)]
        if not self.words:
            raise InputError(f"{path} is empty")
        if "" in self.words:
            raise InputError(f"{path}, line {self.words.index('') + 1}: the word is blank")

    def look_up(self, classes: NDArray[Any], where: str) -> list[str]:
        """The words of some classes.

        Args:
            classes: [n] of any integer type.
            where: file, line and field, for messages.

        Raises:
            InputError: if a class is not in the vocabulary.
        """
        for row in np.flatnonzero((classes < 0) | (classes >= len(self.words)))[:1]:
            raise InputError(
                f"{where}, row {row + 1}: expected 0 to {len(self.words) - 1}, the lines of "
                f"{self.path} counted from 0, found {classes[row]}"
            )
        return [self.words[number] for number in classes]


class Vocabularies:
    """Both files of a folder: `objects_vocab.txt` and `attributes_vocab.txt`.

    Args:
        folder: with the files.
        above: the confidence above which attributes are used.

    Attributes:
        files: the two.

    Raises:
        InputError: as `Vocabulary` does.
    """

    def __init__(self, folder: Path, above: float = ATTRIBUTE_CONFIDENCE) -> None:
        self._above = above
        self._objects = Vocabulary(folder / OBJECTS)
        self._attributes = Vocabulary(folder / ATTRIBUTES)
        self.files = (self._objects.path, self._attributes.path)

    def words(self, classes: Classes) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The words of n regions' classes.

        Detectors give the most probable attribute, however improbable; those without attributes
        write class 0 with confidence 0.

        Args:
            classes: the regions' classes.

        Returns:
            n labels and n attributes, an attribute "" where the confidence is too low.

        Raises:
            InputError: if a class is not in the vocabulary.
        """
        labels = self._objects.look_up(classes.objects_id, f"{classes.where}: objects_id")
        if classes.attrs_id is None or classes.attrs_conf is None:
            return tuple(labels), ("",) * len(labels)
        attributes = self._attributes.look_up(classes.attrs_id, f"{classes.where}: attrs_id")
        confident = (classes.attrs_conf > self._above).tolist()
        return tuple(labels), tuple(
            word if kept else "" for word, kept in zip(attributes, confident, strict=True)
        )
