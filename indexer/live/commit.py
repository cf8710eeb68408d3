"""What one commit of a live index consists of, as Lucene records it with its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from sparta.errors import InputError

LOG = "log-"  # and a number
FOLDER = "live"  # of an index folder that has been written to since it was built
_TEXTS = {"lineage", "parent"}
_ADDED = {*_TEXTS, "began", "given"}  # fields that commits of earlier versions lack


@dataclass(frozen=True)
class Commit:
    """The user data of a Lucene commit; an index as it was built has none.

    Copies of an index number their commits alike, and may then differ. So a commit names its
    lineage: all commits that one writer makes from its opening to its end.

    Attributes:
        version: rises by one with every commit; 0 as built.
        log: number of the change log, 0 for none.
        bytes: position in the log up to which changes are part of the commit.
        columns: number of the list of column segments, 0 for those the index was built with.
        lineage: random name; empty as built, and for commits of versions that had no lineages.
        parent: lineage of the commit that the writer found when it was opened.
        began: version of that commit.
        given: bytes of the record of what the user gave (`indexer.live.given`).
    """

    version: int = 0
    log: int = 0
    bytes: int = 0
    columns: int = 0
    lineage: str = ""
    parent: str = ""
    began: int = 0
    given: int = 0

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
        numbers = [value for name, value in data.items() if name not in _TEXTS]
        complete = set(data) in (names, names - _ADDED)
        if data and not (complete and all(map(str.isdecimal, numbers))):
            raise InputError(
                f"{folder}: its last commit has data of another version: {dict(data)}; open it "
                "with the version that wrote it, or build the index again"
            )
        values: dict[str, Any] = {
            name: value if name in _TEXTS else int(value) for name, value in data.items()
        }
        return cls(**values)

    def continues(self, former: Commit) -> bool:
        """Whether the change logs lead from a former commit of the same build to this one.

        If not, as after an older state was restored, nothing that was read of the former commit
        may be used. Of a commit without a lineage this is unknown, which counts as not.
        """
        if not former.version:
            return True
        if not former.lineage:
            return False
        if self.lineage == former.lineage:
            return former.version <= self.version
        return self.parent == former.lineage and former.version <= self.began

    def data(self) -> dict[str, str]:
        """As user data of a Lucene commit."""
        return {name: str(value) for name, value in asdict(self).items()}


def log_path(index: Path, number: int) -> Path:
    """The change log of an index folder by its number."""
    return index / FOLDER / f"{LOG}{number:06d}"


def log_numbers(index: Path) -> list[int]:
    """Numbers of the change logs of an index folder."""
    return [int(path.name.removeprefix(LOG)) for path in (index / FOLDER).glob(f"{LOG}*")]
