"""The speed of building an index, as JSON values and as a table."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from rich.table import Table

from eval.bench.indexing.stage_costs import Costs

UNUSED = "read shard"  # only after an interruption


@dataclass(frozen=True)
class Whole:
    """The times and sizes of one index.

    Attributes:
        seconds: from the first score to the whole index, columns included.
        processor_seconds: of all cores, including Java's compilation.
        encode_seconds: from the first score until the last shard was pruned, quantised and written.
        merge_seconds: from then to the merged Lucene index.
        columns_seconds: from then to the columns, which are laid out meanwhile.
        lucene_seconds: for a Lucene index of the same postings, stored before, and nothing else, in
            a new process with as many threads.
        postings: of all images.
        memory: peak of all processes together, in bytes, None where it cannot be read.
        scores: bytes of it that are the benchmark's term scores.
        shards: bytes on disk of the shards, which are deleted when the index is complete.
        lucene: bytes on disk of the Lucene index.
        segments: of the Lucene index.
    """

    seconds: float
    processor_seconds: float
    encode_seconds: float
    merge_seconds: float
    columns_seconds: float
    lucene_seconds: float
    postings: int
    memory: int | None
    scores: int
    shards: int
    lucene: int
    segments: int


@dataclass(frozen=True)
class IndexSpeed:
    """One index, and what each stage costs.

    Attributes:
        vectors: name of the encoded images; see `EncodedImages`.
        images: in the index.
        top_n: terms an image keeps at most.
        bits: of an impact.
        whole: the index.
        stages: stage → seconds of processor time an image.
    """

    vectors: str
    images: int
    top_n: int | None
    bits: int
    whole: Whole
    stages: Costs

    def record(self) -> dict[str, Any]:
        """The figures as JSON values."""
        rate = {"images_per_second": self.images / self.whole.seconds}
        return asdict(self) | {"whole": rate | asdict(self.whole)}

    def table(self) -> Table:
        """The stages, with the whole index below."""
        whole = sum(cost for stage, cost in self.stages.items() if stage != UNUSED)
        caption = [_summary(self), _sizes(self)]
        table = Table("stage", caption="\n".join(caption), caption_justify="left")
        for column in ("µs of a core, an image", "images/s on a core", "share"):
            table.add_column(column, justify="right")
        for stage, cost in self.stages.items():
            share = "not counted" if stage == UNUSED else f"{cost / whole:.0%}"
            table.add_row(stage, f"{1e6 * cost:.1f}", f"{1 / cost:,.0f}", share)
        table.add_section()
        table.add_row("all", f"{1e6 * whole:.1f}", f"{1 / whole:,.0f}", "")
        return table


def _summary(found: IndexSpeed) -> str:
    whole = found.whole
    return (
        f"{found.images:,} images, {whole.postings:,} postings in {whole.seconds:.1f} s: "
        f"{found.images / whole.seconds:,.0f} images/s; the last was pruned after "
        f"{whole.encode_seconds:.1f} s; then merging took {whole.merge_seconds:.1f} s and, at the "
        f"same time, laying out columns {whole.columns_seconds:.1f} s. "
        f"{whole.seconds / whole.lucene_seconds:.2f} times as long as Lucene alone on stored "
        f"postings, {whole.lucene_seconds:.1f} s. "
        f"{whole.processor_seconds:.1f} s of all cores for everything."
    )


def _sizes(found: IndexSpeed) -> str:
    whole = found.whole
    memory = f"{whole.memory / 1e9:.2f} GB" if whole.memory else "unknown"
    segments = f"{whole.segments} segment{'s' * (whole.segments != 1)}"
    return (
        f"Peak memory of all processes: {memory}, {whole.scores / 1e9:.2f} GB of it the scores. "
        f"Shards {whole.shards / 1e6:,.0f} MB; Lucene {whole.lucene / 1e6:,.0f} MB, {segments}."
    )
