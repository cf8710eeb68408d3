"""What one commit of a live index consists of, as Lucene records it with its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from sparta.errors import InputError

LOG = "log-"  # and a number
FOLDER = "live"  # of an index folder that has been written to since it was built


@dataclass(frozen=True)
class Commit:
    """The user data of a Lucene commit; an index as it was built has none.

    Attributes:
        version: rises by one with every commit; 0 as built.
        log: number of the change log, 0 for none.
        bytes: position in the log up to which changes are part of the commit.
        columns: number of the list of column segments, 0 for those the index was built with.
    """

    version: int = 0
    log: int = 0
    bytes: int = 0
    columns: int = 0

    @classmethod
    def of(cls, data: Mapping[str, str], folder: Path) -> Commit:
        """Read the user data of a Lucene commit.

        Args:
            data: strings by name.
            folder: of the index, for messages.

        Raises:
            InputError: if it is of another version of the format.
        """
        names = {field.name for field in fields(cls)}
        if data and (set(data) != names or not all(map(str.isdecimal, data.values()))):
            raise InputError(
                f"{folder}: its last commit has data of another version: {dict(data)}; open it "
                "with the version that wrote it, or build the index again"
            )
        return cls(**{name: int(value) for name, value in data.items()})

    def data(self) -> dict[str, str]:
        """As user data of a Lucene commit."""
        return {name: str(value) for name, value in asdict(self).items()}


def log_path(index: Path, number: int) -> Path:
    """The change log of an index folder by its number."""
    return index / FOLDER / f"{LOG}{number:06d}"


def log_numbers(index: Path) -> list[int]:
    """Numbers of the change logs of an index folder."""
    return [int(path.name.removeprefix(LOG)) for path in (index / FOLDER).glob(f"{LOG}*")]
