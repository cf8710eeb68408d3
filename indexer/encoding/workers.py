"""Where images are encoded: in this process, or by the workers of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

from indexer.encoding.term_scores import ImageEncoder
from indexer.settings import TermSet
from sparta.cluster import Cluster
from sparta.errors import InputError
from sparta.features.store import FeatureStore

Unit = TypeVar("Unit")
Result = TypeVar("Result")


class EncoderMap(Protocol):
    """Does some work on units of it, each with an encoder."""

    def __call__(
        self, work: Callable[[ImageEncoder, Unit], Result], units: Sequence[Unit]
    ) -> Iterator[Result]:
        """The results, in order of the units."""
        ...


@dataclass(frozen=True)
class EncoderCopy:
    """What a worker opens an encoder from that is the same as this process's.

    Attributes:
        stores: folders of the feature stores.
        models: folders or hub names.
        batch_size: images per pass of a model.
        device: of the worker.
        terms: terms to compute.
        fingerprints: of the stores and models, for comparison.
    """

    stores: list[Path]
    models: list[str | Path]
    batch_size: int
    device: str
    terms: TermSet
    fingerprints: list[str]

    @classmethod
    def of(cls, encoder: ImageEncoder, models: Sequence[str | Path], device: str) -> EncoderCopy:
        """What copies an encoder of these models."""
        stores = [store.folder for store in encoder.stores]
        terms, size = encoder.terms, encoder.batch_size
        return cls(stores, list(models), size, device, terms, _fingerprints(encoder))

    def open(self) -> ImageEncoder:
        """Open it.

        Raises:
            InputError: if a store or model cannot be used here, or has another content here.
        """
        stores = [FeatureStore.open(folder) for folder in self.stores]
        encoder = ImageEncoder.open(stores, self.models, self.batch_size, self.device, self.terms)
        names = [*self.stores, *self.models]
        for name, own, wanted in zip(names, _fingerprints(encoder), self.fingerprints, strict=True):
            if own != wanted:
                raise InputError(
                    f"{name} is another than on the machine that asked: give a folder that all "
                    "machines share"
                )
        return encoder


def encode_here(encoder: ImageEncoder) -> EncoderMap:
    """All work is done in this process, a unit whenever its result is wanted."""

    def here(
        work: Callable[[ImageEncoder, Unit], Result], units: Sequence[Unit]
    ) -> Iterator[Result]:
        return map(partial(work, encoder), units)

    return here


def encode_on(
    cluster: Cluster, encoder: ImageEncoder, models: Sequence[str | Path], device: str
) -> EncoderMap:
    """The workers of a cluster do the work, with copies of this process's encoder.

    Args:
        cluster: its machines have the stores, and models that are folders, under the same paths.
        encoder: of this process.
        models: from which it was opened.
        device: of the workers.
    """
    return partial(cluster.map, EncoderCopy.of(encoder, models, device).open)


def _fingerprints(encoder: ImageEncoder) -> list[str]:
    stores = [store.fingerprint for store in encoder.stores]
    return stores + [scorer.fingerprint for scorer in encoder.scorers]
