"""Whether the files of a Lucene index are as Lucene wrote them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from zlib import crc32

from indexer.lucene.jvm import in_turn, java, java_path, start
from sparta.errors import InputError, first_line

# Larger indexes are checked by `sparta verify` alone: a search must not read gigabytes to open.
CHECKED_AT_OPENING = 2**26
# Lucene ends every file with a CRC-32 of all before it, in eight bytes, high byte first.
CHECKSUM_BYTES = 8


def check_small_index(folder: Path, names: Sequence[str] | None = None) -> None:
    """Compare the files of an index up to 64 MB with the checksums they end with.

    Args:
        folder: of the index.
        names: of the files of an open commit, which are gone once a later one has replaced them;
            None for all that is there.

    Raises:
        InputError: if one is damaged.
    """
    if names is None:
        names = [path.name for path in folder.iterdir() if path.is_file()]
    paths = [folder / name for name in sorted(names) if not name.endswith(".lock")]
    sizes = [path.stat().st_size for path in paths if path.is_file()]
    for path in paths if sum(sizes) <= CHECKED_AT_OPENING else ():
        with suppress(FileNotFoundError):
            _check_checksum(path)


def _check_checksum(path: Path) -> None:
    content = memoryview(path.read_bytes())
    stored = int.from_bytes(content[-CHECKSUM_BYTES:], "big")
    if crc32(content[:-CHECKSUM_BYTES]) != stored:
        raise InputError(f"{path} is damaged: its checksum is wrong; build the index again")


@in_turn
def check_index(folder: Path) -> None:
    """Run Lucene's `CheckIndex`, which reads every posting and stored field.

    Raises:
        InputError: if it finds damage.
    """
    start()  # configures Java, which the import below would start as it is
    from jnius import JavaException

    store = "org.apache.lucene.store."
    path = java_path(folder)
    # Without a lock file, so that the folder need not be writable.
    locks = java(store + "NoLockFactory").INSTANCE
    report = java("java.io.ByteArrayOutputStream")()
    try:
        checker = java("org.apache.lucene.index.CheckIndex")(
            java(store + "FSDirectory").open(path, locks)
        )
        stream = java("java.io.PrintStream")
        checker.setInfoStream(stream(report, signature="(Ljava/io/OutputStream;)V"))
        clean = bool(checker.checkIndex().clean)
    except JavaException as error:
        raise InputError(f"{folder} is damaged: {first_line(error)}; build the index again") from (
            error
        )
    if not clean:
        lines = (line.strip() for line in str(report.toString()).splitlines())
        reason = next((line for line in lines if "Exception" in line or "ERROR" in line), "")
        raise InputError(f"{folder} is damaged: {reason}; build the index again")
