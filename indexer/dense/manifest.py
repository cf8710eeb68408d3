"""The dense parts of an index folder: their paths, names and manifests."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from indexer.manifest import MANIFEST, Manifest, SealedManifest, located
from sparta.errors import InputError

if TYPE_CHECKING:
    from indexer.dense.vectors import VectorIndexKind

FOLDER = "dense"
MODEL = "model"
VECTORS = "vectors.faiss"
SPARSE = "sparta"  # the inverted index
MILVUS = "milvus"  # the inverted index, found in Milvus
# Free of dots, so that a hidden work folder has no part's name.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9+_-]*")


@dataclass(frozen=True, kw_only=True)
class DenseManifest(SealedManifest):
    """`dense/NAME/manifest.json`."""

    FORMAT = 4

    package_version: str  # of the program that built it
    created: str  # when, ISO 8601, UTC
    model: str  # fingerprint of the model's weights and configuration
    features: str  # fingerprint of the feature store that was embedded
    # Fingerprint of the plain store that the inverted index was built from, which identifies the
    # index this part belongs to
    indexed_features: str
    images: int  # count of rows
    views: int  # vectors of an image
    dimension: int  # of a vector
    kind: VectorIndexKind  # "flat" (exact) or "hnsw"

    @classmethod
    def open(cls, index: Path, name: str, of: Manifest) -> DenseManifest:
        """As `read`, and check that every file has its size."""
        manifest = cls.read(index, name, of)
        manifest.check_sizes(dense_folder(index, name))
        return manifest

    @classmethod
    def read(cls, index: Path, name: str, of: Manifest) -> DenseManifest:
        """Read the manifest of a part, and check that the part is of this index.

        Raises InputError if there is no such part, or it is of another index.
        """
        if name not in dense_names(index):
            known = ", ".join(dense_names(index)) or "none"
            raise InputError(
                f"{index} has no dense part {name!r} (it has: {known}): add it with "
                "`sparta add INDEX FEATURES --dense MODEL`"
            )
        folder = dense_folder(index, name)
        manifest = cls.read_from(folder)
        if manifest.indexed_features != of.features[0]:
            raise InputError(
                f"{folder} is of other images than {index} (of features "
                f"{manifest.indexed_features[:12]} instead of {of.features[0][:12]}): add it again "
                "with `sparta add --dense`"
            )
        return manifest


def dense_folder(index: Path, name: str) -> Path:
    """A part's folder."""
    return located(index) / FOLDER / name


def dense_names(index: Path) -> list[str]:
    """The names of an index's dense parts, sorted."""
    found = (located(index) / FOLDER).glob(f"*/{MANIFEST}")
    return sorted(path.parent.name for path in found if _NAME.fullmatch(path.parent.name))


def members_of(name: str, known: Collection[str]) -> list[str]:
    """The dense parts whose mean a backend such as "a+b" is, each once; [] if one is not known.

    A part's own name may have a plus; it counts before a sum does.
    """
    if name in known:
        return [name]
    for one in sorted(known, key=len, reverse=True):
        others = {*known} - {one}
        if name.startswith(f"{one}+") and (found := members_of(name[len(one) + 1 :], others)):
            return [one, *found]
    return []


def is_name(text: str) -> bool:
    """Whether a dense part may have this name."""
    return bool(_NAME.fullmatch(text)) and text not in (SPARSE, MILVUS)
