"""`sparta info`, `verify`, `snapshot`, `restore`, `alias`, `merge` and `export`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from indexer.commands.options import AsJson, IndexFolder, Yes
from sparta.errors import InputError

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
    from indexer.manifest import index_folders, is_sharded
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


Folder = Annotated[
    Path,
    typer.Argument(metavar="FOLDER", help="An index, a feature store, or a folder of stores."),
]


def verify(folder: Folder) -> None:
    """Check every file of an index or of feature stores for damage.

    All content is read and compared with the hashes that were recorded when it was written. Opening
    an index checks files up to 16 MB, and how larger ones fit together.

    For example:

    sparta verify index/

    sparta verify index.features/
    """
    from indexer.manifest import is_index
    from indexer.verify import verify_index
    from sparta.console import Console
    from sparta.features.store import HEADER, stores_in, verify_stores
    from sparta.progress import progress_bars

    stores = [] if is_index(folder) else stores_in(folder)
    if not is_index(folder) and not stores:
        raise InputError(
            f"{folder} is neither an index (no manifest.json) nor a feature store or a folder of "
            f"them (no {HEADER})"
        )
    stages = {"hash": ("Hashing files", "MB")}
    with progress_bars(stages, Console(stderr=True)) as progress:
        problems = verify_stores(stores, progress) if stores else verify_index(folder, progress)
    console = Console()
    for problem in problems:
        console.print(problem, soft_wrap=True, highlight=False)
    if problems:
        raise InputError(f"{folder}: {len(problems)} problem{'s' if len(problems) > 1 else ''}")
    console.print(f"{folder}: no damage", soft_wrap=True, highlight=False)


NewSnapshot = Annotated[Path, typer.Argument(help="Folder for the snapshot; must not exist.")]


def snapshot(index: IndexFolder, snapshot: NewSnapshot) -> None:
    """Copy an index as it is now, in seconds, while it is searched and written to.

    Files that never change are linked, so that a snapshot on the same disk takes little room and
    time. A snapshot is an index: it can be searched, and copied to another disk like any folder.

    For example:

    sparta snapshot index/ snapshots/2024-06-01
    """
    from indexer.care.copies import take_snapshot

    commit = take_snapshot(index, snapshot)
    state = f"commit {commit.version:,}" if commit.version else "as it was built"
    typer.echo(f"{snapshot}: {index}, {state}")


Snapshot = Annotated[Path, typer.Argument(help="Snapshot made by sparta snapshot.")]
NewIndex = Annotated[Path, typer.Argument(help="Folder for the index.")]


def restore(snapshot: Snapshot, index: NewIndex, yes: Yes = False) -> None:
    """Make an index of a snapshot, which is checked whole before and stays as it is.

    An index that is there is moved aside after a question, or with --yes; a running sparta serve
    changes over to the restored one.

    For example:

    sparta restore snapshots/2024-06-01 index/
    """
    from indexer.care.copies import restore_snapshot
    from indexer.commands.keep import ask
    from sparta.console import Console
    from sparta.progress import progress_bars

    if index.exists():
        ask(f"{index} exists: move it aside and put {snapshot} in its place?", yes)
    stages = {"hash": ("Hashing files", "MB")}
    with progress_bars(stages, Console(stderr=True)) as progress:
        aside = restore_snapshot(snapshot, index, progress)
    former = f"; the former index is {aside}" if aside else ""
    typer.echo(f"{index}: restored from {snapshot}{former}")


Alias = Annotated[Path, typer.Argument(help="The name: a path where nothing is, or an alias.")]


def alias(alias: Alias, index: IndexFolder) -> None:
    """Let a name stand for an index, or for another one from now on.

    All commands take the name in place of the index. A server of it changes over within a second:
    requests in flight finish on the former index, and none fails. The name is a symbolic link; the
    former index stays where it is.

    For example:

    sparta alias prod index-7 && sparta serve prod

    sparta alias prod index-8
    """
    from indexer.care.copies import set_alias

    former = set_alias(alias, index)
    before = f" (before: {former})" if former else ""
    typer.echo(f"{alias} stands for {index.resolve()}{before}", nl=True)


Indexes = Annotated[list[Path], typer.Argument(help="One index, or several with --out.")]
Merged = Annotated[
    Path | None, typer.Option(help="Folder for the index made of several; must not exist.")
]


def merge(indexes: Indexes, out: Merged = None) -> None:
    """Merge the segments of an index, or several indexes into one.

    One index gets one segment without deleted images, and its Lucene index is written again with
    all that was added, changed and deleted since.

    Several must have the same models, settings, offsets and scale, and no image in common: indexes
    that began as copies of one, to which different photos were added. They stay as they are, and
    nothing is encoded again.

    For example:

    sparta merge index/

    sparta merge laptop/ archive/ --out all/
    """
    from indexer.care.combine import merge_indexes, merge_segments
    from indexer.commands.build import STAGES
    from sparta.console import Console
    from sparta.progress import progress_bars

    if (len(indexes) > 1) != (out is not None):
        raise InputError("give one index, or several and --out for the index made of them")
    console = Console()
    with progress_bars(STAGES, Console(stderr=True)) as progress:
        if out is None:
            images = merge_segments(indexes[0], progress)
            text = f"{indexes[0]}: {images:,} images in one segment"
        else:
            images = merge_indexes(indexes, out, progress).images
            text = f"{out}: {images:,} images of {len(indexes)} indexes"
    console.print(text, soft_wrap=True, highlight=False)


Format = Annotated[
    Literal["lucene", "anserini", "opensearch", "npz"],
    typer.Argument(
        metavar="FORMAT",
        help="lucene: a folder that Pyserini's LuceneImpactSearcher opens. anserini: JSON Lines "
        "for its JsonVectorCollection. opensearch: bulk requests and the mapping for them. npz: a "
        "sparse matrix of SciPy.",
    ),
]
Exported = Annotated[Path, typer.Argument(help="Folder for the export; must not exist.")]
Field = Annotated[
    str | None, typer.Option(help="OpenSearch's field for the impacts (default: impacts).")
]
Kind = Annotated[
    Literal["rank_features", "sparse_vector"] | None,
    typer.Option(
        help="Kind of that field: rank_features, searched exactly (default), or sparse_vector, "
        "searched approximately, with numbers of terms in place of terms."
    ),
]


def export(
    format: Format, index: IndexFolder, out: Exported, field: Field = None, kind: Kind = None
) -> None:
    """Write the impacts of an index for another search engine, or as a matrix.

    The images are those of the newest commit, in the order of their ids. The index stays as it is,
    and may be searched and written to meanwhile.

    For example:

    sparta export lucene index/ lucene/

    sparta export opensearch index/ requests/ --field impacts --kind rank_features

    sparta export npz index/ matrix/
    """
    from indexer.commands.build import STAGES
    from indexer.export import export_index
    from sparta.console import Console
    from sparta.progress import progress_bars

    if (field or kind) and format != "opensearch":
        raise InputError("--field and --kind are of opensearch: leave them out")
    stages = STAGES | {"export": ("Reading images", "images")}
    with progress_bars(stages, Console(stderr=True)) as progress:
        images = export_index(
            format,
            index,
            out,
            field=field or "impacts",
            kind=kind or "rank_features",
            progress=progress,
        )
    typer.echo(f"{out}: {images:,} images")
