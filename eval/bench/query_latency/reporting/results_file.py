"""The results as one JSON file that grows cell by cell."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from sparta.errors import InputError

FILE = "speed.json"
SAME_MACHINE = ("processor", "cores")


class Cell(NamedTuple):
    """The conditions of one figure.

    Attributes:
        kind: of the collection, "copies" or "mixed".
        vectors: whose: an index's offset, a dense part's name, "synthetic" or "clustered".
        engine: name.
        images: in the collection.
        top_n: terms an image keeps, "all", or None for vectors of dense models.
        k: hits of an answer.
        threads: that searched at once.
    """

    kind: str
    vectors: str
    engine: str
    images: int
    top_n: int | str | None
    k: int
    threads: int


@dataclass
class Results:
    """The file's content.

    Attributes:
        runs: the command's runs that wrote it: arguments and circumstances.
        sources: kind and name of vectors → where they come from.
        engines: name → settings and promise.
        left_out: name → why.
        encoders: name of dense vectors → times of embedding a text, milliseconds.
        records: one for each cell: its figures, and the run that measured it.
    """

    path: Path
    runs: list[dict[str, Any]] = field(default_factory=list)
    sources: dict[str, Any] = field(default_factory=dict)
    engines: dict[str, Any] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    encoders: dict[str, Any] = field(default_factory=dict)
    records: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def open(cls, folder: Path) -> Results:
        """Read the results of earlier runs from a folder, if there are any.

        Raises:
            InputError: if the file is not a results file.
        """
        path = folder / FILE
        if not path.is_file():
            return cls(path)
        try:
            return cls(path, **json.loads(path.read_text(encoding="utf-8")))
        except (ValueError, TypeError) as error:
            raise InputError(f"{path} is not a file of sparta bench speed: {error}") from error

    def begin(self, run: dict[str, Any]) -> None:
        """Note a new run.

        Raises:
            InputError: if earlier ones were on another machine.
        """
        for earlier in self.runs:
            for key in SAME_MACHINE:
                if earlier[key] != run[key]:
                    raise InputError(
                        f"{self.path} was measured on another machine ({key} {earlier[key]}, here "
                        f"{run[key]}): choose another --out"
                    )
        self.runs.append(run)

    def source(self, name: str, about: dict[str, Any]) -> None:
        """Note where vectors come from.

        Raises:
            InputError: if those of that name are others.
        """
        about = json.loads(json.dumps(about))
        if self.sources.setdefault(name, about) != about:
            raise InputError(
                f"{self.path} holds figures for other {name} vectors: choose another --out"
            )

    def has(self, cell: Cell) -> bool:
        """Whether a cell is measured."""
        return any(_cell(record) == cell for record in self.records)

    def add(self, cell: Cell, figures: Mapping[str, Any]) -> None:
        """Add a cell's figures."""
        self.records.append({**cell._asdict(), **figures, "run": len(self.runs) - 1})

    def save(self) -> None:
        """Write the file, whole or not at all."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        content = {key: value for key, value in vars(self).items() if key != "path"}
        unfinished = self.path.with_name(self.path.name + ".unfinished")
        unfinished.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        unfinished.replace(self.path)


def _cell(record: Mapping[str, Any]) -> Cell:
    return Cell(*(record[name] for name in Cell._fields))
