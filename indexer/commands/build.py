"""`sparta index`, `index-dense` and `push`: indexes are made of features."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from indexer.commands.options import BatchSize, Device, IndexFolder, ReadPhotos
from indexer.settings import PREFERENCES, USUAL, Preference
from sparta.addresses import folder_at
from sparta.cluster import connected
from sparta.commands.options import Ray
from sparta.errors import InputError
from sparta.extract.job import EXTRACT_STAGES

if TYPE_CHECKING:
    from indexer.dense.manifest import DenseManifest
    from indexer.manifest import Manifest
    from indexer.milvus.push import Pushed
    from sparta.console import Console

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


Features = Annotated[
    list[str],
    typer.Argument(
        help="A folder of photos, or feature stores of the same photos: the plain one first, then "
        "augmentations. Addresses such as s3://bucket/photos are read too."
    ),
]
Out = Annotated[Path, typer.Option(help="Folder for the index; replaced once it is complete.")]
Models = Annotated[
    list[str],
    typer.Option(
        "--model",
        help="VisualSparta model: folder, hub name, photos (the package's model for photos) or "
        "sample (its model for drawings). Repeat it to average models.",
    ),
]
Augmentations = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Copies of each photo to average (test-time augmentation): plain, mirrored, then "
        "random crops (default: 1, plain).",
    ),
]


def _named_choice(values: Preference) -> str:
    top_n, power, bits = values
    return f"--top-n {top_n} --asked-power {power:g} --bits {bits}"


Prefer = Annotated[
    str | None,
    typer.Option(
        metavar="|".join(PREFERENCES),
        help="Named choices: "
        + "; ".join(f"{name}: {_named_choice(values)}" for name, values in PREFERENCES.items())
        + ". An option that is given has its own value.",
    ),
]
TopN = Annotated[
    str | None,
    typer.Option(help=f"Terms an image keeps, or: all (default: {USUAL.top_n})."),
]
Bits = Annotated[
    int | None,
    typer.Option(min=1, max=16, help=f"Bits of an impact (default: {USUAL.bits})."),
]
Offset = Annotated[
    str,
    typer.Option(
        help="Subtracted from each term's scores before pruning: mean, median or minimum of the "
        "term over the corpus, none (the paper's pruning), or what the model was trained for."
    ),
]
Terms = Annotated[
    str, typer.Option(help="Terms of the index: trained (in some training caption), or all.")
]

Asked = Annotated[
    str,
    typer.Option(
        metavar="model|FILE|none",
        help="Term frequencies that weigh in the choice of an image's terms: those of the model's "
        "training captions, of a text file with one query a line, or none (the largest scores "
        "are kept; so too if the model records no frequencies).",
    ),
]
AskedPower = Annotated[
    float | None,
    typer.Option(
        help="p of score * (frequency + 1)^p, of which an image keeps the largest: from 0 to 1 "
        f"(default: {USUAL.asked_power:g})."
    ),
]
MetadataFile = Annotated[
    Path | None,
    typer.Option(
        "--metadata",
        help="Metadata of photos, returned with every hit and searched by --filter: JSON Lines "
        'such as {"image": "beach/a.jpg", "taken": "2024-05-01"}, a CSV file with a column '
        "image, or a Parquet file.",
    ),
]
Fields = Annotated[
    list[str],
    typer.Option(
        "--field",
        metavar="NAME=KIND",
        help="Kind of a field of the metadata: keyword, number, date, boolean or geo; otherwise "
        "the one that all its values have. Repeat it for several fields.",
    ),
]
ShardsOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Divide the index into so many shards by a hash of the image ids, to be served by "
        "several machines; its answers stay the same.",
    ),
]


def index(
    features: Features,
    out: Out,
    model: Models = ["photos"],  # noqa: B006  # typer copies it
    augmentations: Augmentations = None,
    prefer: Prefer = None,
    top_n: TopN = None,
    bits: Bits = None,
    offset: Offset = "model",
    terms: Terms = "trained",
    asked: Asked = "model",
    asked_power: AskedPower = None,
    metadata: MetadataFile = None,
    field: Fields = [],  # noqa: B006
    photo_metadata: ReadPhotos = True,
    batch_size: BatchSize = 32,
    device: Device = "auto",
    shards: ShardsOption = None,
    ray: Ray = None,
) -> None:
    """Encode images, prune their terms and write a searchable index.

    Photos are first turned into the features the model was trained on, stored in OUT.features. When
    photos were added, replaced or removed, features of the others are kept. An interrupted run
    continues when started again. Averaging scores over several augmentations and
    models improves recall at no cost when searching.

    An index that is replaced keeps its fields, deletions and sent images; where it could not, the
    command refuses. It loses its dense parts: add them again with sparta index-dense.

    For example:

    sparta index ~/Pictures --out index/

    sparta index features/ --model model/ --out index/

    sparta index photos/ --model seed0/ --model seed1/ --augmentations 4 --out index/

    sparta index photos/ --model model/ --out index/ --top-n all --offset none

    sparta index photos/ --model model/ --out index/ --top-n 200 --asked queries.txt

    sparta index photos/ --out index/ --shards 4

    sparta index features/ --model model/ --out index/ --ray 10.0.0.1:6379
    """
    from sparta.extras import set_up_libraries

    set_up_libraries()
    from indexer.build import build_index
    from indexer.encoding.features import open_stores
    from indexer.encoding.impacts import read_queries
    from indexer.fields.kinds import declared_kinds
    from indexer.metadata import read_metadata
    from indexer.settings import ASKED_KINDS, PruningSettings
    from sparta.console import Console
    from sparta.features.record import skipped_summary
    from sparta.progress import progress_bars

    pruning = PruningSettings(
        **_named_or_given(prefer, top_n, bits, asked_power),
        offset=offset,  # type: ignore[arg-type]
        terms=terms,  # type: ignore[arg-type]
        asked=asked,
    )
    kinds = declared_kinds(field)
    if asked not in ASKED_KINDS:
        read_queries(asked)  # what is wrong with it is said before photos are extracted
    about = read_metadata(metadata) if metadata else {}
    console, lines = Console(), list[str]()
    say = partial(console.print, soft_wrap=True, highlight=False)
    with connected(ray, device) as cluster, progress_bars(STAGES, console) as show:
        stores = open_stores(
            [folder_at(place) for place in features],
            model,
            "visual_sparta",
            out,
            augmentations=augmentations,
            device=device,
            cluster=cluster,
            progress=show,
            notice=say,
        )
        manifest = build_index(
            stores,
            model,
            out,
            pruning,
            metadata=about,
            kinds=kinds,
            read_photos=photo_metadata,
            batch_size=batch_size,
            device=device,
            shards=shards,
            cluster=cluster,
            progress=show,
            notice=lines.append,
        )
    for line in (summary(manifest), *lines):
        say(f"{out}: {line}")
    if asked == "model" and manifest.asked == "none" and manifest.top_n is not None:
        say(NO_FREQUENCIES)
    if skipped := skipped_summary(stores[0].folder):
        say(skipped)


def _named_or_given(
    prefer: str | None, top_n: str | None, bits: int | None, asked_power: float | None
) -> dict[str, Any]:
    """The values of the named choice, but for options that are given."""
    if prefer not in (None, *PREFERENCES):
        raise InputError(f"--prefer must be one of {', '.join(PREFERENCES)}, got {prefer!r}")
    given = {"bits": bits, "asked_power": asked_power}
    choice: dict[str, Any] = (PREFERENCES[prefer] if prefer else USUAL)._asdict()
    choice |= {name: value for name, value in given.items() if value is not None}
    if top_n is None:
        return choice
    if top_n != "all" and not top_n.isdecimal():
        raise InputError(f"--top-n must be a number or all, got {top_n!r}")
    return choice | {"top_n": None if top_n == "all" else int(top_n)}


PlainStore = Annotated[
    Path,
    typer.Argument(help="The index's plain feature store, or photos in the models' features."),
]
DenseModels = Annotated[
    list[str],
    typer.Option(
        "--model",
        metavar="[NAME=]MODEL",
        help="Dense model: folder or hub name. Its vectors become a backend of its own, under "
        "NAME or the model's configured name.",
    ),
]
IndexOut = Annotated[Path, typer.Option(help="Index folder made by sparta index.")]
Hnsw = Annotated[
    bool, typer.Option("--hnsw", help="Store vectors in an HNSW graph: faster, may miss images.")
]


def index_dense(
    features: PlainStore,
    model: DenseModels,
    out: IndexOut,
    hnsw: Hnsw = False,
    batch_size: BatchSize = 32,
    device: Device = "auto",
) -> None:
    """Add the image vectors of dense models to an index.

    Each model becomes a backend beside the inverted index.
    Photos are first turned into the features the models were trained on, stored in OUT.features.
    Of an index that was written to, images are embedded that are as they were built, or were added
    with the same features; the others keep the vectors that they have.

    For example:

    sparta index-dense features/ --model vse++/ --out index/

    sparta index-dense features/ --model vse++/ --model tuned=runs/7/ --hnsw --out index/
    """
    from sparta.extras import set_up_libraries

    set_up_libraries()
    from indexer.dense.build import add_dense, check_index, check_models, name_models
    from indexer.encoding.features import open_stores
    from indexer.engines.open import open_backend
    from sparta.console import Console
    from sparta.progress import progress_bars

    named = name_models(model)
    check_index(out)
    stages = {f"embed {name}": (f"Embedding for {name}", "images") for name in named}
    console = Console()
    added = {}
    with progress_bars(STAGES | stages, console) as show:
        models = list(named.values())
        [store] = open_stores([features], models, "vse", out, device=device, progress=show)
        check_models(named, store)
        for name, path in named.items():
            added[name] = add_dense(
                out,
                store,
                name,
                path,
                kind="hnsw" if hnsw else "flat",
                batch_size=batch_size,
                device=device,
                progress=show,
            )
    for name, manifest in added.items():
        missing = open_backend(out, name).missing_images
        left = f"; {missing:,} without" if missing else ""
        line = f"{out}: {dense_summary(name, manifest)}{left}"
        console.print(line, soft_wrap=True, highlight=False)


Address = Annotated[
    str,
    typer.Argument(
        metavar="URI",
        help="Of the server: milvus://HOST:PORT, or https://… for TLS. A password or key is read "
        "from SPARTA_MILVUS_TOKEN.",
    ),
]
Name = Annotated[
    str, typer.Option("--collection", help="Alias of the collection; its name is NAME_VERSION.")
]
Follow = Annotated[
    bool, typer.Option("--follow", help="Push what is written to the index, until interrupted.")
]
DropFormer = Annotated[
    bool, typer.Option("--drop-former", help="Drop the collections of former versions afterwards.")
]


def push(
    index: IndexFolder,
    uri: Address,
    collection: Name = "sparta",
    follow: Follow = False,
    drop_former: DropFormer = False,
) -> None:
    """Copy an index into Milvus, where searches find the same images with the same scores.

    A push that was interrupted continues, and one of an index that was written to since pushes
    what has changed. The alias names the collection once it is complete.

    For example:

    sparta push index/ milvus://127.0.0.1:19530

    sparta push index/ milvus://127.0.0.1:19530 --collection photos --follow
    """
    from indexer.milvus.connection import Milvus
    from indexer.milvus.push import follow as follow_index
    from indexer.milvus.push import push as push_index
    from sparta.console import Console
    from sparta.errors import InputError
    from sparta.progress import progress_bars

    if follow and drop_former:
        raise InputError("give --follow or --drop-former, not both")
    console, milvus = Console(soft_wrap=True, highlight=False), Milvus(uri)
    with progress_bars({"push": ("Pushing images", "images")}, Console(stderr=True)) as progress:
        if not follow:
            _report(console, push_index(index, milvus, collection, drop_former, progress))
            return
        follow_index(
            index,
            milvus,
            collection,
            lambda pushed: _report(console, pushed),
            console.print,
            progress,
        )


def _report(console: Console, pushed: Pushed) -> None:
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
