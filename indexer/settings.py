"""All that decides an index's content; checked here and nowhere else."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple, get_args

from sparta.errors import InputError

OffsetKind = Literal["mean", "median", "minimum", "none"]
OFFSET_KINDS: tuple[OffsetKind, ...] = get_args(OffsetKind)
OFFSET_OF_MODEL: Literal["model"] = "model"  # the kind that the model's configuration names
TermSet = Literal["trained", "all"]
TERM_SETS: tuple[TermSet, ...] = get_args(TermSet)

# Lucene sums in float32, whole numbers exactly up to 2^24: at 16 bits that is 256 query terms of
# the largest impact, at 8 bits 65,793.
MAXIMUM_BITS = 16

# Sources of the terms' frequencies in queries, besides the path of a file of queries.
FREQUENCY_KINDS = ("model", "none")


class Preference(NamedTuple):
    """A point on the frontier of recall against size and time; see `PruningSettings`."""

    top_n: int
    frequency_power: float | None
    bits: int


# Chosen on held-out training photos; docs/results/recall.md has the figures.
USUAL = Preference(300, None, 8)
PREFERENCES = {
    "size": Preference(50, 0.35, 5),
    "speed": Preference(150, 0.2, 8),
    "recall": Preference(1000, 0.35, 8),
}


@dataclass(frozen=True, kw_only=True)
class PruningSettings:
    """How term scores become impacts.

    Attributes:
        top_n: terms an image keeps at most; None keeps all (equation 14).
        bits: of an impact, 1 to 16.
        offset: what is subtracted from each term's scores before pruning; "model" for what the
            model was trained for.
        terms: terms of the index: "trained" (some training caption contained them) or "all".
        frequencies: source of the terms' frequencies in queries: "model" (the captions the models
            were trained on), the path of a text file with one query a line, or "none".
        frequency_power: p, from 0 to 1; an image keeps its largest score * (frequency + 1)^p. None
            for what the model was trained for.

    Raises:
        InputError: if a value is out of range.
    """

    top_n: int | None = USUAL.top_n
    bits: int = USUAL.bits
    offset: OffsetKind | Literal["model"] = OFFSET_OF_MODEL
    terms: TermSet = "trained"
    frequencies: str = "model"
    frequency_power: float | None = USUAL.frequency_power

    def __post_init__(self) -> None:
        if self.top_n is not None and self.top_n < 1:
            raise InputError(f"--top-n must be at least 1, or all, got {self.top_n}")
        if not 1 <= self.bits <= MAXIMUM_BITS:
            raise InputError(f"--bits must be from 1 to {MAXIMUM_BITS}, got {self.bits}")
        kinds = (OFFSET_OF_MODEL, *OFFSET_KINDS)
        if self.offset not in kinds:
            raise InputError(f"--offset must be one of {', '.join(kinds)}, got {self.offset!r}")
        if self.terms not in TERM_SETS:
            raise InputError(f"--terms must be trained or all, got {self.terms!r}")
        power = self.frequency_power
        if power is not None and not 0 <= power <= 1:
            raise InputError(f"--frequency-power must be from 0 to 1, got {power:g}")


@dataclass(frozen=True, kw_only=True)
class IndexSettings(PruningSettings):
    """Everything that decides an index's content, and where its photos are; see `Manifest`.

    Attributes:
        offset: a kind, never "model".
        models: fingerprint of each model.
        model_names: of each; see `Manifest`.
        features: fingerprint of each feature store.
        photos: folder the image ids are relative to, None if unknown.
        offset_images: how many images the offsets are estimated on.
        frequencies: what was used: "model", the SHA-256 of a file of queries, or "none", also where
            the models record no frequencies and where images keep all terms.
        frequency_power: 0 where `frequencies` is "none".
        rerank: see `Manifest`.
    """

    offset: OffsetKind = "mean"
    models: list[str]
    model_names: list[str] = field(default_factory=list)
    features: list[str]
    photos: str | None
    offset_images: int
    frequencies: str = "none"
    frequency_power: float = 0.0
    rerank: int = 0
