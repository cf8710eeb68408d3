"""Files that a library reads or maps, and that may be cut short meanwhile."""

from __future__ import annotations

from pathlib import Path

from sparta.errors import InputError


class FileLength:
    """The length of a file when it was opened.

    Reading behind the end of a file that is mapped into memory ends the process, and HDF5 reads
    zeros there.

    Args:
        path: of the file.

    Attributes:
        bytes: the length.

    Raises:
        InputError: if there is no such file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.bytes = self._now()

    def check(self) -> None:
        """Check that the file is as long as it was.

        Raises:
            InputError: if it has been cut short or deleted.
        """
        if (missing := self.bytes - self._now()) > 0:
            raise InputError(
                f"{self._path}: the file was cut short while it was read: {missing:,} bytes are "
                "missing"
            )

    def _now(self) -> int:
        try:
            return self._path.stat().st_size
        except OSError as error:
            raise InputError(f"{self._path}: cannot be read: {error.strerror}") from error
