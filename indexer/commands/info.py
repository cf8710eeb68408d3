"""`sparta info`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from indexer.commands.options import AsJson, IndexFolder

if TYPE_CHECKING:
    from indexer.care.info import IndexInfo, LiveInfo


def info(index: IndexFolder, as_json: AsJson = False) -> None:
    """Show what is in an index, and how far its images have drifted from those of its build.

    Images that are added are encoded with the offsets, scale and terms of the build. Drift is the
    share of the impacts that has moved to other terms since then. As long as the images are like
    those of the build it stays small, however many are added; from 0.5 on a rebuild with sparta
    index finds measurably more.

    For example:

    sparta info index/

    sparta info index/ --json
    """
    import json
    from dataclasses import asdict

    from rich.table import Table

    from indexer.care.info import index_info
    from indexer.manifest import is_sharded
    from indexer.shards import index_folders
    from sparta.console import Console

    shards = [index_info(folder) for folder in index_folders(index)]
    if as_json:
        content = {"shards": list(map(asdict, shards))} if is_sharded(index) else asdict(shards[0])
        typer.echo(json.dumps(content, indent=2))
        return
    table = Table.grid(padding=(0, 2))
    if is_sharded(index):
        images = sum(one.images for one in shards)
        table.add_row("images", f"{images:,} in {len(shards)} shards, each as follows")
    for found in shards:
        for name, text in _lines(found).items():
            table.add_row(name, text)
    Console().print(table, highlight=False)


def _lines(found: IndexInfo) -> dict[str, str]:
    total = sum(found.bytes.values())
    parts = ", ".join(f"{name} {_size(size)}" for name, size in found.bytes.items())
    fields = ", ".join(f"{name} ({kind})" for name, kind in sorted(found.fields.items()))
    lines = {
        "images": f"{found.images:,}, {found.terms_per_image:,.0f} terms each",
        "engines": ", ".join(found.engines),
        "size": f"{_size(total)}: {parts}",
        "built": f"{found.created} by version {found.package_version}",
        "from": found.photos or "features of an unknown folder",
        "models": ", ".join(model[:12] for model in found.models),
        "augmentations": str(found.augmentations),
        "pruning": found.pruning,
        "fields": fields,
    }
    if found.vectors:
        counts = (
            f"{name} of {count:,} images" + _without(found.images - count)
            for name, count in found.vectors.items()
        )
        lines["vectors"] = ", ".join(counts)
    return lines | (_live_lines(found.live) if found.live else {"written": "never since"})


def _without(missing: int) -> str:
    return f" ({missing:,} without)" if missing else ""


def _live_lines(live: LiveInfo) -> dict[str, str]:
    drift = "unknown: the index was built by an earlier version"
    if live.drift is not None:
        advice = "a rebuild is worth it" if live.rebuild else "a rebuild is worth it from 0.5 on"
        drift = f"{live.drift:.2f}; {advice}"
    log = f"{live.log_images:,} images, {_size(live.log_bytes)}"
    return {
        "commit": f"{live.commit:,}",
        "change log": log,
        "segments": f"{live.segments:,}, {100 * live.deleted_share:.1f} % of their images deleted",
        "drift": drift,
    }


def _size(count: int) -> str:
    return f"{count / 1e6:,.1f} MB"
