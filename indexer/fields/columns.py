"""Metadata of images → typed columns, written once and mapped from an Arrow file."""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from indexer.fields.kinds import CONVERSIONS, OF_PHOTOS, Kind, narrowest, with_derived
from indexer.manifest import REMEDY
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


class _Columns(Mapping[str, FieldColumn]):
    """Columns by the name of the field, each made when it is first read.

    Of thousands of fields a filter reads a few.
    """

    def __init__(self, makers: Mapping[str, Callable[[], FieldColumn]]) -> None:
        self.makers = makers
        self._made: dict[str, FieldColumn] = {}

    def __getitem__(self, name: str) -> FieldColumn:
        column = self._made.get(name)
        if column is None:
            column = self._made[name] = self.makers[name]()
        return column

    def __iter__(self) -> Iterator[str]:
        return iter(self.makers)

    def __len__(self) -> int:
        return len(self.makers)


class FieldPart:
    """The fields of the documents 0 to N - 1 of a segment. Immutable, and safe from any thread.

    Attributes:
        images: N.
        kinds: of each field.
        columns: by the name of the field.
        ranks: [N] places of the documents in the order of their image ids; None if these rise.
    """

    def __init__(
        self,
        images: int,
        kinds: Mapping[str, Kind],
        makers: Mapping[str, Callable[[], FieldColumn]],
        ranks: NDArray[np.int64] | None = None,
    ) -> None:
        self.images, self.kinds, self.ranks = images, kinds, ranks
        self.columns = _Columns(makers)
        self._remembered: OrderedDict[Any, Any] = OrderedDict()

    def remembered(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """What was made for a key before, or is made now; the last few are remembered."""
        made: Made | None = self._remembered.get(key)
        if made is None:
            made = self._remembered[key] = make()
            if len(self._remembered) > REMEMBERED:
                self._remembered.popitem(last=False)
        return made

    def of_kinds(
        self, kinds: Mapping[str, Kind], stored: Callable[[int], tuple[str, Mapping[str, Any]]]
    ) -> FieldPart:
        """The same with columns of some kinds, made of what is `stored` where they are others."""
        own = self.kinds.items()
        wrong = {name: kinds[name] for name, kind in own if kinds.get(name, kind) != kind}
        if not wrong:
            return self
        values = {name: _FieldValues() for name in wrong}
        filled = np.logical_or.reduce([self.columns[name].filled for name in wrong])
        for document in np.flatnonzero(filled).tolist():
            fields = with_derived(*stored(document))
            for name, found in values.items():
                found.put(document, fields.get(name))
        made = {name: values[name].maker(kind, self.images) for name, kind in wrong.items()}
        makers = {**self.columns.makers, **made}
        return FieldPart(self.images, {**self.kinds, **wrong}, makers, self.ranks)

    @classmethod
    def open(cls, folder: Path) -> FieldPart:
        """Map the file of a `FieldWriter`; raises InputError if it is damaged."""
        path = folder / FIELDS
        try:
            table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
            kinds = _kinds(table.schema)
        except (pa.ArrowException, OSError, ValueError, TypeError, KeyError) as error:
            raise _damaged(path, error) from error
        makers = {name: partial(_read_column, path, table, name, kinds[name]) for name in kinds}
        return cls(len(table), kinds, makers)


def stored_kinds(folder: Path) -> dict[str, Kind]:
    """The kinds of the fields that a `FieldWriter` wrote into a folder; none without its file.

    Raises InputError if the file is damaged.
    """
    path = folder / FIELDS
    if not path.is_file():
        return {}
    try:
        return _kinds(pa.ipc.open_file(pa.memory_map(str(path))).schema)
    except (pa.ArrowException, OSError, TypeError, KeyError) as error:
        raise _damaged(path, error) from error


def _kinds(schema: pa.Schema) -> dict[str, Kind]:
    return {field.name: field.metadata[KIND].decode() for field in schema}


def _damaged(path: Path, error: Exception) -> InputError:
    return InputError(f"{path} is damaged ({first_line(error)}): {REMEDY}")


def _read_column(path: Path, table: pa.Table, name: str, kind: Kind) -> FieldColumn:
    """One column of the table, whose lists are read as they lie in the file."""
    column = table.column(name)
    try:
        column.validate(full=True)
        lists = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
        return _column_of(kind, lists)
    except (pa.ArrowException, ValueError) as error:
        raise _damaged(path, error) from error


def _column_of(kind: Kind, lists: pa.ListArray) -> FieldColumn:
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


_TYPES: Mapping[Kind, pa.DataType] = {
    "number": pa.float64(),
    "date": pa.timestamp("us"),
    "boolean": pa.bool_(),
    "geo": pa.list_(pa.float64(), 2),
}


class FieldWriter:
    """Collects the metadata of documents 0, 1, … in this order, and makes columns of it.

    A field's kind is the declared one, that of `OF_PHOTOS`, or else the one that all its values
    have: numbers, booleans, dates (texts such as 2024-06-01), points ({"lat": …, "lon": …}), else
    keywords. Values that a fixed kind cannot have, and objects of any other shape, are left out.
    """

    def __init__(self, kinds: Mapping[str, Kind] | None = None) -> None:
        self._kinds = dict(kinds or {})
        self._images = 0
        self._fields: dict[str, _FieldValues] = {}

    def add(self, ids: Iterable[str], metadata: Iterable[Mapping[str, Any]]) -> None:
        """Append some images."""
        for image_id, fields in zip(ids, metadata, strict=True):
            for name, value in with_derived(image_id, fields).items():
                field = self._fields.get(name)
                if field is None:
                    field = self._fields[name] = _FieldValues()
                field.put(self._images, value)
            self._images += 1

    def write(self, folder: Path) -> None:
        """Write the columns into a folder."""
        kinds, schema, columns = self._all_kinds(), [], []
        for name, kind in kinds.items():
            columns.append(self._fields[name].column(kind, self._images))
            schema.append(pa.field(name, columns[-1].type, metadata={KIND: kind}))
        batch = pa.record_batch(columns, schema=pa.schema(schema))
        with (
            pa.OSFile(str(folder / FIELDS), "wb") as file,
            pa.ipc.new_file(file, batch.schema) as writer,
        ):
            writer.write_batch(batch)

    def part(self, ranks: NDArray[np.int64] | None = None) -> FieldPart:
        """The columns in memory, of all images that were added; `ranks` as of a `FieldPart`."""
        kinds = self._all_kinds()
        makers = {
            name: self._fields[name].maker(kind, self._images) for name, kind in kinds.items()
        }
        return FieldPart(self._images, kinds, makers, ranks)

    def _all_kinds(self) -> dict[str, Kind]:
        """The kinds of the fields that have values, by rising name."""
        found: dict[str, Kind] = {}
        for name, values in sorted(self._fields.items()):
            kind = self._kinds.get(name)
            if kind is None and (kind := values.kind()) is not None:
                kind = OF_PHOTOS.get(name, kind)
            if kind is not None:
                found[name] = kind
        return found


def part_of(
    images: Iterable[tuple[str, Mapping[str, Any]]], kinds: Mapping[str, Kind] | None = None
) -> FieldPart:
    """The columns of some images, in memory, from their ids, metadata and declared kinds."""
    writer, ids = FieldWriter(kinds), []
    for image_id, metadata in images:
        writer.add([image_id], [metadata])
        ids.append(image_id)
    order = sorted(range(len(ids)), key=ids.__getitem__)
    rising = order == list(range(len(ids)))
    return writer.part(None if rising else np.argsort(order))


class _FieldValues:
    """The values of one field: each distinct one once, and which documents have it."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}
        self._distinct: list[Any] = []
        self._codes = array("i")
        self._documents = array("i")

    def put(self, document: int, value: Any) -> None:
        """Note a value or several, None for none."""
        if isinstance(value, list):
            self.add_all(document, value)
        elif value is not None:
            self.add(document, value)

    def add(self, document: int, value: Any) -> None:
        # True and 1 are equal to Python, but not to us. A text equals no other value.
        key = value if type(value) is str else (type(value), _hashable(value))
        code = self._numbers.get(key)
        if code is None:
            if key == (type(value), None):
                return
            code = self._numbers[key] = len(self._distinct)
            self._distinct.append(value)
        self._codes.append(code)
        self._documents.append(document)

    def add_all(self, document: int, values: Iterable[Any]) -> None:
        first = len(self._codes)
        for value in values:
            self.add(document, value)
        if len(codes := self._codes[first:]) > 1:  # an image has a value once
            del self._codes[first:], self._documents[first:]
            self._codes.extend(unique := dict.fromkeys(codes))
            self._documents.extend([document] * len(unique))

    def kind(self) -> Kind | None:
        """The kind that all values have, None if there is no value of any."""
        return narrowest(self._distinct)

    def maker(self, kind: Kind, images: int) -> Callable[[], FieldColumn]:
        """What makes the column of the values, which are complete."""
        return lambda: _column_of(kind, self.column(kind, images))

    def column(self, kind: Kind, images: int) -> pa.ListArray:
        """The values as lists [images] of the kind, those that cannot be of it left out."""
        converted = [CONVERSIONS[kind](value) for value in self._distinct]
        fitting = np.array([value is not None for value in converted], np.bool_)
        codes = np.frombuffer(self._codes, np.int32)
        kept = fitting[codes] if len(codes) else np.empty(0, np.bool_)
        codes, documents = codes[kept], np.frombuffer(self._documents, np.int32)[kept]
        counts = np.bincount(documents, minlength=images)
        starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        values = _keywords if kind == "keyword" else _plain
        return pa.ListArray.from_arrays(pa.array(starts), values(converted, codes, kind))


def _keywords(words: list[Any], codes: NDArray[np.int32], kind: Kind) -> pa.Array:
    distinct = sorted({word for word in words if word is not None})
    places = {word: place for place, word in enumerate(distinct)}
    of_code = np.array([places.get(word, 0) for word in words], np.int32)
    chosen = of_code[codes] if len(codes) else codes
    return pa.DictionaryArray.from_arrays(pa.array(chosen), pa.array(distinct, pa.string()))


def _plain(values: list[Any], codes: NDArray[np.int32], kind: Kind) -> pa.Array:
    return pa.array(values, _TYPES[kind]).take(pa.array(codes))


def _hashable(value: Any) -> Any:
    """What two equal values share; None for what no field can have."""
    if isinstance(value, Mapping):
        value = tuple(value.items())
    try:
        hash(value)
    except TypeError:
        return None
    return value
