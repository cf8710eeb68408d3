"""What Java raises while it writes leaves the process as an error of Python's."""

from __future__ import annotations

from pathlib import Path

import pytest

from indexer.lucene.jvm import java
from indexer.lucene.segment_writer import _java_errors


def test_what_java_cannot_write_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"^Lucene cannot write: .*absent"), _java_errors():
        java("java.io.RandomAccessFile")(str(tmp_path / "absent" / "file"), "rw")
    with pytest.raises(ZeroDivisionError), _java_errors():
        1 / 0  # noqa: B018
