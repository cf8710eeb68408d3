"""Tables of words beside a model's tokenizer: substitutes, rare terms, and the spelling of words.

Each table is a file of the model's folder, made once and copied into every index of the model, so
that a search only looks words up.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, TypeVar

from sparta.errors import InputError
from sparta.json_values import Json

FORMAT_VERSION = 1
SUBSTITUTES = "substitutes.json"
RARE_TERMS = "rare.json"
SPELLING = "spelling.json"
FILES = (SUBSTITUTES, RARE_TERMS, SPELLING)

Table = TypeVar("Table")


class Substitute(NamedTuple):
    """A trained term near a word, and their cosine similarity."""

    term: str
    similarity: float


class Spelling(NamedTuple):
    """The words of several word pieces that are no misspellings.

    Attributes:
        frequent: those of many captions: misspelt words are corrected to them, too.
        correct: all of them.
    """

    frequent: tuple[str, ...]
    correct: frozenset[str]


@dataclass(frozen=True)
class WordTables:
    """The tables of a folder.

    Attributes:
        files: the content of each file by its name; a folder may lack any of them.
        folder: of the files, for errors.
    """

    files: Mapping[str, bytes] = field(default_factory=dict)
    folder: Path = field(default=Path(), compare=False)

    @classmethod
    def open(cls, folder: str | Path) -> WordTables:
        """Read and parse the tables of a model or index folder.

        Raises:
            InputError: if one has another format or is damaged.
        """
        tables = cls.reading(folder)
        _ = tables.substitutes, tables.rare, tables.spelling
        return tables

    @classmethod
    def reading(cls, folder: str | Path) -> WordTables:
        """As `open`, but a table is parsed when it is first needed: most searches replace no word.

        The files are read now, as they may be replaced meanwhile.
        """
        folder = Path(folder)
        paths = [folder / name for name in FILES]
        return cls({path.name: path.read_bytes() for path in paths if path.is_file()}, folder)

    @classmethod
    def of(cls, substitutes: Mapping[str, tuple[Substitute, ...]]) -> WordTables:
        """A table of substitutes, one word a line."""
        lines = (
            f"{json.dumps(word, ensure_ascii=False)}: "
            f"{json.dumps([[term, round(near, 3)] for term, near in found], ensure_ascii=False)}"
            for word, found in sorted(substitutes.items())
        )
        body = ",\n".join(lines)
        text = f'{{"format_version": {FORMAT_VERSION}, "words": {{\n{body}\n}}}}\n'
        return cls({SUBSTITUTES: text.encode()})

    def save(self, folder: str | Path) -> None:
        """Write the files into a folder."""
        for name, content in self.files.items():
            (Path(folder) / name).write_bytes(content)

    @cached_property
    def substitutes(self) -> Mapping[str, tuple[Substitute, ...]]:
        """A word that no training caption contained → its substitutes, the best first."""
        remedy = "make it again with `sparta substitutes`"
        what = f"a table of substitutes of format {FORMAT_VERSION}"
        return self._parsed(SUBSTITUTES, _substitutes, {}, what, remedy)

    @cached_property
    def rare(self) -> frozenset[str]:
        """The terms in the captions of few training photos."""
        remedy = "copy it again from the trained model"
        return self._parsed(RARE_TERMS, _rare, frozenset(), "a list of rare terms", remedy)

    @cached_property
    def spelling(self) -> Spelling | None:
        """How words of several pieces are spelled; None without the table: nothing is corrected."""
        remedy = "copy it again from the trained model"
        return self._parsed(SPELLING, _spelling, None, "a table of spelling", remedy)

    def _parsed(
        self, name: str, parse: Callable[[Json], Table], empty: Table, what: str, remedy: str
    ) -> Table:
        if name not in self.files:
            return empty
        try:
            return parse(json.loads(self.files[name]))
        except (ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
            path = self.folder / name
            raise InputError(f"{path} is not {what} ({error}): {remedy}, or remove it") from error


def _substitutes(values: Json) -> dict[str, tuple[Substitute, ...]]:
    if values["format_version"] != FORMAT_VERSION:
        raise ValueError(f"its format is {values['format_version']!r}")
    return {
        word: tuple(Substitute(str(term), float(near)) for term, near in found)
        for word, found in values["words"].items()
    }


def _rare(values: Json) -> frozenset[str]:
    if not isinstance(values["photos"], int):
        raise ValueError('"photos" is no whole number')
    return frozenset(_texts(values, "terms"))


def _spelling(values: Json) -> Spelling:
    frequent = _texts(values, "frequent")
    return Spelling(tuple(frequent), frozenset([*frequent, *_texts(values, "other")]))


def _texts(values: Json, name: str) -> list[str]:
    found = values[name]
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise ValueError(f'"{name}" is no list of texts')
    return found
