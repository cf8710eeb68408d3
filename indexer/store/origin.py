"""What images were encoded from, under short names: images of one origin have the same vectors.

An image that is replaced has another origin. So what was computed of an image, and is stored by
its origin, is never taken for that of another content under the same id.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING
from uuid import uuid4

if TYPE_CHECKING:
    from sparta.features.record import ImageFeatures

BUILT = "="  # before the id of an image that is as the index was built
DIGITS = 32  # of every other origin, hexadecimal


def built_origin(image_id: str) -> str:
    """The origin of an image that is as the index was built."""
    return BUILT + image_id


def new_origin() -> str:
    """The origin of an image of which nothing but its terms is known."""
    return uuid4().hex


def origin_of(image: ImageFeatures) -> str:
    """The origin of an image that is encoded from features: a hash of them."""
    digest = blake2b(digest_size=DIGITS // 2)
    size = [image.width, image.height, *image.features.shape]
    for part in (size, image.labels, image.attributes):
        digest.update(repr(list(part)).encode())
    for values in (image.features, image.boxes):
        digest.update(values.tobytes())
    return digest.hexdigest()
