"""How much memory a foreign file may claim before anything of it is read."""

from __future__ import annotations

from sparta.errors import InputError

# Published features take about 1 MB an image: 100 regions of 2,048 floats.
LARGEST = 1 << 28


def check_size(size: int, where: str) -> None:
    """Check a size that a file states, before memory is taken for it.

    Args:
        size: of one image's numbers, or of one line or list, in bytes.
        where: file and entry, for messages.

    Raises:
        InputError: if it is above 256 MB.
    """
    if size > LARGEST:
        raise InputError(
            f"{where}: it claims {size:,} bytes, and at most {LARGEST:,} are read at once; "
            "the file is damaged, or of another format"
        )
