"""What `sparta index` and `sparta index-dense` share: progress bars and summaries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparta.features.extract.job import EXTRACT_STAGES

if TYPE_CHECKING:
    from indexer.dense.manifest import DenseManifest
    from indexer.manifest import Manifest

STAGES = {
    **EXTRACT_STAGES,
    "offset": ("Measuring offsets", "images"),
    "encode": ("Encoding images", "images"),
    "write": ("Writing Lucene", "images"),
    "merge": ("Merging Lucene", "images"),
    "columns": ("Laying out columns", "images"),
    "divide": ("Dividing into shards", "images"),
}

NO_FREQUENCIES = (
    "The models record no term frequencies, so that terms were chosen by score alone: give a file "
    "of queries as --asked, or keep more terms (--top-n 1000)."
)


def summary(manifest: Manifest) -> str:
    """One line about a finished index."""
    clipped = f", {manifest.clipped:,} scores clipped" if manifest.clipped else ""
    return (
        f"{manifest.images:,} images, {manifest.postings:,} postings of "
        f"{manifest.distinct_terms:,} terms ({_choice(manifest)}); one impact is "
        f"{manifest.scale:.4g}, mean error {manifest.mean_error:.2g}{clipped}"
    )


def kept_aside(images: int) -> str:
    """What became of fields that the user gave to photos which show something else now."""
    if not images:
        return ""
    return f", fields given to {images:,} photos kept aside: they show something else now"


def _choice(manifest: Manifest) -> str:
    """How the terms of an image were chosen."""
    if manifest.top_n is None:
        return "all kept"
    if manifest.asked == "none":
        return f"at most {manifest.top_n:,} an image, by score; asked: none"
    asked = "model" if manifest.asked == "model" else f"queries {manifest.asked[:12]}"
    return (
        f"at most {manifest.top_n:,} an image, by score and frequency; asked: {asked}, "
        f"power {manifest.asked_power:g}"
    )


def dense_summary(name: str, manifest: DenseManifest) -> str:
    """One line about a finished dense part."""
    views = f" in {manifest.views} views" if manifest.views > 1 else ""
    return (
        f"{name}: vectors of {manifest.images:,} images{views}, {manifest.dimension} numbers "
        f"each, {manifest.kind}"
    )
