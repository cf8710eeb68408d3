"""Writes the jar of Lucene alone: what the program uses of the jar that Pyserini carries.

Usage: lucene_jar.py FAT_JAR JAR
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

# Lucene's classes and Jackson's, which write what a search found, also those for newer versions of
# Java; Lucene's lists of services, the one class of Anserini that indexes are searched with, and
# the licences.
KEPT = re.compile(
    r"(META-INF/versions/\d+/)?org/apache/lucene/.*"
    r"|(META-INF/versions/\d+/)?com/fasterxml/jackson/(annotation|core|databind)/.*"
    r"|META-INF/services/org\.apache\.lucene\..*"
    r"|io/anserini/search/similarity/ImpactSimilarity.*"
    r"|META-INF/(MANIFEST\.MF|LICENSE.*|NOTICE.*)"
)
# Analysis of Japanese, with its dictionary, and of words by spelling dictionaries and addresses.
LEFT_OUT = re.compile(r"org[/.]apache[/.]lucene[/.]analysis[/.](email|hunspell|ja)[/.].*")


def copy_lucene(fat: Path, jar: Path) -> int:
    """Write a new jar with the entries that are kept.

    Returns:
        How many classes it has.

    Raises:
        ValueError: if it has none.
    """
    classes = 0
    with ZipFile(fat) as source, ZipFile(jar, "w", ZIP_DEFLATED, compresslevel=9) as target:
        for entry in source.infolist():
            if _is_kept(entry):
                content = _content(source, entry)
                target.writestr(entry.filename, content, ZIP_DEFLATED, compresslevel=9)
                classes += entry.filename.endswith(".class")
    if not classes:
        raise ValueError(f"{fat} has no class of Lucene")
    return classes


def _is_kept(entry: ZipInfo) -> bool:
    kept, left_out = KEPT.fullmatch(entry.filename), LEFT_OUT.fullmatch(entry.filename)
    return bool(kept) and not left_out and not entry.is_dir()


def _content(jar: ZipFile, entry: ZipInfo) -> bytes:
    """An entry's content; a list of services without the classes that are left out."""
    content = jar.read(entry)
    if not entry.filename.startswith("META-INF/services/"):
        return content
    lines = content.decode().splitlines()
    return "\n".join(line for line in lines if not LEFT_OUT.fullmatch(line.strip())).encode()


def main() -> None:
    """Copy from the jar named first to the one named second."""
    fat, jar = map(Path, sys.argv[1:])
    classes = copy_lucene(fat, jar)
    size = jar.stat().st_size / 1e6
    sys.stdout.write(
        f"{jar.name}: {classes} classes, {size:.1f} MB of {fat.stat().st_size / 1e6:.1f}\n"
    )


if __name__ == "__main__":
    main()
