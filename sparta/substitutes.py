"""Substitutes: for words that no training caption contained, the nearest trained terms.

A table is a file beside a model's tokenizer, made once and copied into every index of the model, so
that replacing a word of a query is a dictionary lookup.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

from sparta.errors import InputError

FORMAT_VERSION = 1
SUBSTITUTES = "substitutes.json"


class Substitute(NamedTuple):
    """A trained term near a word, and their cosine similarity."""

    term: str
    similarity: float


@dataclass(frozen=True)
class SubstituteTable:
    """Words with their substitutes.

    Attributes:
        words: a whole word of the vocabulary → its substitutes, the best first.
    """

    words: Mapping[str, tuple[Substitute, ...]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.words)

    @classmethod
    def open(cls, folder: Path) -> SubstituteTable:
        """Read the table of a model or index folder; empty if the folder has none.

        Raises:
            InputError: if the file has another format or is damaged.
        """
        return cls.reading(folder)()

    @classmethod
    def reading(cls, folder: Path) -> Callable[[], SubstituteTable]:
        """As `open`, but parsed by the first call: most searches have no word to replace.

        The file is read now, as it may be replaced meanwhile.
        """
        path = folder / SUBSTITUTES
        return cache(partial(cls._of, path, path.read_bytes() if path.is_file() else None))

    @classmethod
    def _of(cls, path: Path, content: bytes | None) -> SubstituteTable:
        try:
            return cls() if content is None else cls(_parse(content.decode()))
        except (ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
            raise InputError(
                f"{path} is not a table of substitutes of format {FORMAT_VERSION} ({error}): make "
                "it again with `sparta substitutes`, or remove it"
            ) from error

    def save(self, folder: Path) -> None:
        """Write `folder/substitutes.json`, one word a line."""
        lines = (
            f"{json.dumps(word, ensure_ascii=False)}: "
            f"{json.dumps([[term, round(near, 3)] for term, near in found], ensure_ascii=False)}"
            for word, found in sorted(self.words.items())
        )
        body = ",\n".join(lines)
        text = f'{{"format_version": {FORMAT_VERSION}, "words": {{\n{body}\n}}}}\n'
        (folder / SUBSTITUTES).write_text(text, encoding="utf-8")


def _parse(text: str) -> dict[str, tuple[Substitute, ...]]:
    values = json.loads(text)
    if values["format_version"] != FORMAT_VERSION:
        raise ValueError(f"its format is {values['format_version']!r}")
    return {
        word: tuple(Substitute(str(term), float(near)) for term, near in found)
        for word, found in values["words"].items()
    }
