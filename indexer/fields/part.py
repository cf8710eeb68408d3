"""The typed columns of a number of images, immutable, mapped from an Arrow file."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from indexer.fields.kinds import Kind
from indexer.parts import REMEDY
from sparta.errors import InputError, first_line

FIELDS = "fields.arrow"
KIND = b"kind"
REMEMBERED = 64  # results of a part, such as the bitmaps of filters

Made = TypeVar("Made")


@dataclass(frozen=True, eq=False)
class FieldColumn:
    """The values of one field; an image may have none, one or many.

    Attributes:
        kind: of all values.
        starts: [N + 1], document d has the values from starts[d] to starts[d + 1].
        values: of a keyword [M] int32, the place in `words`; number [M] float64; date [M] int64,
            microseconds since 1970; boolean [M] bool; geo [M, 2] float64, latitude and longitude.
        words: the distinct values of a keyword, rising; None for other kinds.
    """

    kind: Kind
    starts: NDArray[Any]
    values: NDArray[Any]
    words: pa.Array | None = None

    @cached_property
    def documents(self) -> NDArray[np.int32]:
        """[M] the document of each value."""
        return np.repeat(np.arange(len(self.starts) - 1, dtype=np.int32), np.diff(self.starts))

    @cached_property
    def single(self) -> bool:
        """Whether every document has exactly one value."""
        return len(self.values) == len(self.starts) - 1 and bool((np.diff(self.starts) == 1).all())

    @cached_property
    def filled(self) -> NDArray[np.bool_]:
        """[N] the documents that have a value."""
        return np.diff(self.starts) > 0

    @cached_property
    def folded(self) -> pa.Array:
        """The words of a keyword in lower case."""
        return _lower(self.words)

    def having(self, chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """[N] the documents of which a value is chosen [M]."""
        if self.single:
            return chosen
        found = np.zeros(len(self.starts) - 1, np.bool_)
        found[self.documents[chosen]] = True
        return found


class FieldPart:
    """The fields of the documents 0 to N - 1 of a segment. Immutable, and safe from any thread.

    Attributes:
        images: N.
        columns: by the name of the field.
        ranks: [N] places of the documents in the order of their image ids; None if these rise.

    Args:
        images, columns, ranks: the same.
    """

    def __init__(
        self,
        images: int,
        columns: Mapping[str, FieldColumn],
        ranks: NDArray[np.int64] | None = None,
    ) -> None:
        self.images = images
        self.columns = columns
        self.ranks = ranks
        self._remembered: OrderedDict[Any, Any] = OrderedDict()

    @property
    def kinds(self) -> dict[str, Kind]:
        """The kind of each field."""
        return {name: column.kind for name, column in self.columns.items()}

    def remembered(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """What was made for a key before, or is made now; the last few are remembered."""
        made: Made | None = self._remembered.get(key)
        if made is None:
            made = self._remembered[key] = make()
            if len(self._remembered) > REMEMBERED:
                self._remembered.popitem(last=False)
        return made

    @classmethod
    def open(cls, folder: Path) -> FieldPart:
        """Map the file that a `FieldWriter` wrote into a folder.

        Raises:
            InputError: if the file is damaged.
        """
        path = folder / FIELDS
        try:
            table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
            table.validate(full=True)
            return cls.of(table, len(table))
        except (pa.ArrowException, OSError, ValueError, KeyError) as error:
            raise InputError(f"{path} is damaged ({first_line(error)}): {REMEDY}") from error

    @classmethod
    def of(cls, table: pa.Table, images: int, ranks: NDArray[np.int64] | None = None) -> FieldPart:
        """The columns of a table of lists, whose fields name their kinds."""
        columns = {field.name: _column(field, table.column(field.name)) for field in table.schema}
        return cls(images, columns, ranks)


def stored_kinds(folder: Path) -> dict[str, Kind]:
    """The kinds of the fields that a `FieldWriter` wrote into a folder; none without its file.

    Raises:
        InputError: if the file is damaged.
    """
    path = folder / FIELDS
    if not path.is_file():
        return {}
    try:
        schema = pa.ipc.open_file(pa.memory_map(str(path))).schema
        return {field.name: field.metadata[KIND].decode() for field in schema}
    except (pa.ArrowException, OSError, TypeError, KeyError) as error:
        raise InputError(
            f"{path} is damaged: {first_line(error)}; build the index again"
        ) from error


def _column(field: pa.Field, column: pa.ChunkedArray) -> FieldColumn:
    """One column of the table, whose lists are read as they lie in the file."""
    kind: Kind = field.metadata[KIND].decode()
    lists = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    starts = np.asarray(lists.offsets)
    values = lists.values
    if kind == "keyword":
        return FieldColumn(kind, starts, np.asarray(values.indices), values.dictionary)
    if kind == "geo":
        return FieldColumn(kind, starts, np.asarray(values.values).reshape(-1, 2))
    numbers = values.to_numpy(zero_copy_only=False)
    return FieldColumn(kind, starts, numbers.view(np.int64) if kind == "date" else numbers)


def _lower(words: pa.Array) -> pa.Array:
    """Words in lower case."""
    # Loading it takes as long as a search by a filter, and most searches have none.
    import pyarrow.compute as pc

    lowered = pc.ascii_lower(words)
    foreign = pc.invert(pc.string_is_ascii(words))
    own = words.filter(foreign)
    right = pc.utf8_lower(own)
    # Where only ASCII letters change, which is most often, Arrow's slow function is not needed.
    same = right.equals(pc.ascii_lower(own))
    return lowered if same else pc.replace_with_mask(lowered, foreign, right)
