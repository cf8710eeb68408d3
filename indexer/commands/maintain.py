"""`sparta info`, `verify`, `snapshot`, `restore`, `merge` and `export`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from sparta.commands.options import AsJson, IndexFolder, Yes
from sparta.errors import InputError

if TYPE_CHECKING:
    from indexer.maintenance.info import IndexInfo, LiveInfo
    from indexer.milvus.push import Pushed
    from sparta.console import Console


def info(index: IndexFolder, as_json: AsJson = False) -> None:
    """Show what is in an index, and how far its images have drifted from its build.

    Drift is the share of impacts that moved to other terms since the build, 0 to 1. From 0.5 on,
    a rebuild with sparta index finds measurably more.

    For example:

    sparta info index/ --json
    """
    import json
    from dataclasses import asdict

    from rich.table import Table

    from indexer.maintenance.info import index_info
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
        "precision": found.precision,
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

    Compares all content with the hashes that were recorded when it was written.

    For example:

    sparta verify index/
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

    On the same disk files are hard links, which take no room. A snapshot is an index: search it,
    or copy it to another disk.

    For example:

    sparta snapshot index/ snapshots/2024-06-01
    """
    from indexer.maintenance.copies import take_snapshot

    commit = take_snapshot(index, snapshot)
    state = f"commit {commit.version:,}" if commit.version else "as it was built"
    typer.echo(f"{snapshot}: {index}, {state}")


Snapshot = Annotated[Path, typer.Argument(help="Snapshot, or another index.")]
NewIndex = Annotated[Path, typer.Argument(help="Folder for the index, or the name with --link.")]
Link = Annotated[
    bool, typer.Option("--link", help="Make INDEX a name for SNAPSHOT, or for another index now.")
]


def restore(snapshot: Snapshot, index: NewIndex, link: Link = False, yes: Yes = False) -> None:
    """Make an index of a snapshot, after checking it whole.

    Renames an existing index to INDEX.before-DATE, and asks first. With --link INDEX becomes a
    symbolic link, which later calls point elsewhere. A running sparta serve INDEX changes over
    within a second, without a failed request.

    For example:

    sparta restore snapshots/2024-06-01 index/

    sparta restore index-8 prod --link
    """
    from indexer.commands.keep import ask
    from indexer.maintenance.copies import restore_snapshot, set_alias
    from sparta.console import Console
    from sparta.progress import progress_bars

    if link:
        former = set_alias(index, snapshot)
        before = f" (before: {former})" if former else ""
        typer.echo(f"{index} stands for {snapshot.resolve()}{before}")
        return
    if index.exists():
        ask(f"{index} exists: move it aside and put {snapshot} in its place?", yes)
    stages = {"hash": ("Hashing files", "MB")}
    with progress_bars(stages, Console(stderr=True)) as progress:
        aside = restore_snapshot(snapshot, index, progress)
    moved = f"; the former index is {aside}" if aside else ""
    typer.echo(f"{index}: restored from {snapshot}{moved}")


Indexes = Annotated[list[Path], typer.Argument(help="One index, or several with --out.")]
Merged = Annotated[Path | None, typer.Option(help="Folder for a new index; must not exist.")]
NewShards = Annotated[
    int | None, typer.Option(min=1, help="Shards of the new index; 1: without shards.")
]


def merge(indexes: Indexes, out: Merged = None, shards: NewShards = None) -> None:
    """Merge the segments of an index, or several indexes into one, or change the number of shards.

    One index gets one segment without deleted images, in each shard, and a new Lucene index of its
    newest commit. Several indexes must have the same models, settings, offsets and scale, and no
    image in common. With --shards and without --out, the new index takes the place of the former
    one at the end; until then searches go on, and writes wait. No image is encoded again.

    For example:

    sparta merge index/

    sparta merge index/ --shards 4

    sparta merge laptop/ archive/ --out all/
    """
    from indexer.commands.build import STAGES
    from indexer.maintenance.combine import merge_indexes, merge_segments
    from indexer.manifest import shard_names
    from sparta.console import Console
    from sparta.progress import progress_bars

    if len(indexes) > 1 and out is None:
        raise InputError("give one index, or several and --out for the index made of them")
    console = Console()
    with progress_bars(STAGES, Console(stderr=True)) as progress:
        if out is None and shards is None:
            images = merge_segments(indexes[0], progress)
            divided = len(shard_names(indexes[0]))
            text = "in one segment" + (f" of each of {divided} shards" if divided else "")
        else:
            images = merge_indexes(indexes, out, shards or 1, progress)
            text = f"of {len(indexes)} indexes" if len(indexes) > 1 else f"in {shards or 1} shards"
    line = f"{out or indexes[0]}: {images:,} images {text}"
    console.print(line, soft_wrap=True, highlight=False)


Format = Annotated[
    Literal["lucene", "anserini", "opensearch", "npz", "milvus"],
    typer.Argument(
        metavar="FORMAT",
        help="lucene: a folder that Pyserini's LuceneImpactSearcher opens. anserini: JSON Lines "
        "for its JsonVectorCollection. opensearch: bulk requests and the mapping for them. npz: a "
        "sparse matrix of SciPy. milvus: a collection of a server.",
    ),
]
Exported = Annotated[
    str,
    typer.Argument(
        metavar="OUT",
        help="Folder, which must not exist; for milvus milvus://HOST:PORT, or https://… for TLS, "
        "with a password or key in SPARTA_MILVUS_TOKEN.",
    ),
]
Field = Annotated[
    str | None,
    typer.Option(
        metavar="NAME=KIND",
        help="opensearch: field for the impacts, of the kind rank_features (exact) or "
        "sparse_vector (approximate) (default: impacts=rank_features).",
    ),
]
Collection = Annotated[
    str, typer.Option(help="milvus: alias of the collection, whose name is NAME_VERSION.")
]
Follow = Annotated[
    bool, typer.Option("--follow", help="milvus: go on with every write, until Ctrl+C.")
]
DropFormer = Annotated[
    bool, typer.Option("--drop-former", help="milvus: drop collections of former versions.")
]


def export(
    format: Format,
    index: IndexFolder,
    out: Exported,
    field: Field = None,
    collection: Collection = "sparta",
    follow: Follow = False,
    drop_former: DropFormer = False,
) -> None:
    """Write the impacts of an index for another search engine, or as a matrix.

    Exports the images of the newest commit, in the order of their ids. To Milvus, a repeated
    export writes only what changed, and an interrupted one continues.

    For example:

    sparta export lucene index/ lucene/

    sparta export opensearch index/ requests/ --field impacts=rank_features

    sparta export milvus index/ milvus://127.0.0.1:19530 --collection photos --follow
    """
    from indexer.commands.build import STAGES
    from indexer.export import KINDS, export_index
    from sparta.console import Console
    from sparta.progress import progress_bars

    if field and format != "opensearch":
        raise InputError("--field is of opensearch: leave it out")
    if (follow or drop_former) and format != "milvus":
        raise InputError("--follow and --drop-former are of milvus: leave them out")
    if format == "milvus":
        _export_milvus(index, out, collection, follow, drop_former)
        return
    name, _, kind = (field or "impacts=rank_features").partition("=")
    if kind not in KINDS:
        raise InputError(f"--field {field}: expected NAME=rank_features or NAME=sparse_vector")
    stages = STAGES | {"export": ("Reading images", "images")}
    with progress_bars(stages, Console(stderr=True)) as progress:
        images = export_index(format, index, Path(out), field=name, kind=kind, progress=progress)
    typer.echo(f"{out}: {images:,} images")


def _export_milvus(index: Path, uri: str, collection: str, follow: bool, drop_former: bool) -> None:
    from indexer.milvus.connection import Milvus
    from indexer.milvus.push import build_version, push
    from indexer.milvus.push import follow as follow_index
    from sparta.console import Console
    from sparta.progress import progress_bars

    if follow and drop_former:
        raise InputError("give --follow or --drop-former, not both")
    build_version(index)  # of an index in shards it says what to do
    console, milvus = Console(soft_wrap=True, highlight=False), Milvus(uri)
    with progress_bars({"push": ("Pushing images", "images")}, Console(stderr=True)) as progress:
        if not follow:
            _show_pushed(console, push(index, milvus, collection, drop_former, progress))
            return

        def tell(pushed: Pushed) -> None:
            _show_pushed(console, pushed)

        follow_index(index, milvus, collection, tell, console.print, progress)


def _show_pushed(console: Console, pushed: Pushed) -> None:
    text = (
        f"{pushed.collection}: {pushed.images:,} images, {pushed.written:,} written, "
        f"{pushed.deleted:,} deleted"
    )
    if not pushed.switched:
        text += "; the server has no aliases: use this name"
    console.print(text)
    if pushed.former:
        names = ", ".join(pushed.former)
        console.print(f"Former versions, which --drop-former drops: {names}")
