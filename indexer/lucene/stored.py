"""What an index stores of an image besides its impacts."""

from __future__ import annotations

from typing import Any, NamedTuple

STORED_CACHE = 100_000  # images whose id and metadata are kept, some 300 bytes each


class Stored(NamedTuple):
    """The stored id and metadata of an image."""

    image_id: str
    metadata: dict[str, Any]
