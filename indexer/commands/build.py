"""`sparta index`: photos or features become an index."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from indexer.lucene.jvm import PACKAGES
from indexer.settings import FREQUENCY_KINDS, PREFERENCES, USUAL, PruningSettings
from sparta.addresses import folder_at
from sparta.cluster import connected
from sparta.commands.options import (
    BatchSize,
    Device,
    Exclude,
    Frequencies,
    Include,
    Ray,
    ReadPhotos,
    advanced,
)
from sparta.errors import InputError
from sparta.extract.job import EXTRACT_STAGES
from sparta.extras import check_installed, how_to_install
from sparta.json_values import Json

if TYPE_CHECKING:
    from indexer.manifest import Manifest

STAGES = {
    **EXTRACT_STAGES,
    "import": ("Reading embeddings", "images"),
    "offset": ("Measuring offsets", "images"),
    "encode": ("Encoding images", "images"),
    "write": ("Writing Lucene", "images"),
    "merge": ("Merging Lucene", "images"),
    "copy": ("Copying images", "images"),
    "columns": ("Laying out columns", "images"),
}

NO_FREQUENCIES = (
    "The models record no term frequencies, so that terms were chosen by score alone: give a file "
    "of queries as --frequencies, or keep more terms (--top-n 1000)."
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
    if manifest.frequencies == "none":
        return f"at most {manifest.top_n:,} an image, by score; term frequencies: none"
    frequencies = (
        "model" if manifest.frequencies == "model" else f"queries {manifest.frequencies[:12]}"
    )
    return (
        f"at most {manifest.top_n:,} an image, by score and term frequencies of the {frequencies}, "
        f"power {manifest.frequency_power:g}"
    )


Features = Annotated[
    list[str],
    typer.Argument(
        help="Folder of photos, or s3://bucket/photos; feature stores of them, the plain one "
        "first; or image embeddings (.npy, .npz, Parquet, clip-retrieval)."
    ),
]
Out = Annotated[Path, typer.Option(help="Folder for the index.")]
Models = Annotated[
    list[str],
    typer.Option(
        "--model",
        help="VisualSparta model, or a dual encoder such as CLIP: folder, hub name, photos or "
        "sample. Repeatable.",
    ),
]
MetadataFile = Annotated[
    Path | None,
    typer.Option(
        "--metadata",
        help='JSON Lines such as {"image": "a.jpg", "taken": "2024-05-01"}, or CSV or Parquet.',
    ),
]
Fields = Annotated[
    list[str],
    typer.Option(
        "--field",
        metavar="NAME=KIND",
        help="Declare a field of the metadata: keyword, number, date, boolean or geo. Repeatable.",
    ),
]
Prefer = Annotated[
    str | None,
    typer.Option(
        metavar="|".join(PREFERENCES),
        help="--top-n, --frequency-power, --bits: "
        + "; ".join(
            f"{name}: {values.top_n}, {values.frequency_power:g}, {values.bits}"
            for name, values in PREFERENCES.items()
        )
        + ".",
    ),
]
TopN = Annotated[
    str | None, typer.Option(help=f"Terms an image keeps, or: all (default: {USUAL.top_n}).")
]
Bits = Annotated[
    int | None, advanced(min=1, max=16, help=f"Bits of an impact (default: {USUAL.bits}).")
]
Offset = Annotated[
    str,
    advanced(
        help="Subtracted from each term's scores before pruning: the corpus's mean, median or "
        "minimum of the term, none (as in the paper), or what the model was trained for."
    ),
]
Terms = Annotated[
    str, advanced(help="Terms of the index: trained (in some training caption), or all.")
]
FrequencyPower = Annotated[
    float | None,
    advanced(
        help="An image keeps its largest score * (frequency + 1)^POWER, 0 to 1 "
        "(default: what the model was trained for)."
    ),
]
Augmentations = Annotated[
    int | None,
    advanced(
        min=1,
        help="Copies of each photo to average: plain, mirrored, then random crops (default: 1).",
    ),
]
KeepFeatures = Annotated[
    bool,
    advanced(
        "--keep-features",
        help="Keep photos' features, 170 KB each, in OUT.features.",
    ),
]
Precision = Annotated[
    bool,
    advanced(
        "--bfloat16/--float32",
        help="Features in bfloat16 where possible.",
    ),
]
Shards = Annotated[
    int | None,
    advanced(min=1, help="Divide the index into shards for several machines."),
]
Rerank = Annotated[
    int,
    advanced(
        min=0,
        max=1000,
        metavar="N",
        help="Most hits that a dual encoder may re-rank.",
    ),
]
Lucene = Annotated[
    bool | None,
    advanced(
        "--lucene/--no-lucene",
        help="Also in Lucene's form (default: if installed).",
    ),
]


def index(
    features: Features,
    out: Out,
    model: Models = ["photos"],  # noqa: B006  # typer copies it
    metadata: MetadataFile = None,
    field: Fields = [],  # noqa: B006
    photo_metadata: ReadPhotos = True,
    include: Include = [],  # noqa: B006
    exclude: Exclude = [],  # noqa: B006
    prefer: Prefer = None,
    top_n: TopN = None,
    bits: Bits = None,
    offset: Offset = "model",
    terms: Terms = "trained",
    frequencies: Frequencies = "model",
    frequency_power: FrequencyPower = None,
    augmentations: Augmentations = None,
    keep_features: KeepFeatures = False,
    bfloat16: Precision = True,
    batch_size: BatchSize = 32,
    device: Device = "auto",
    shards: Shards = None,
    rerank: Rerank = 0,
    lucene: Lucene = None,
    ray: Ray = None,
) -> None:
    """Make an index of photos, or of their features.

    An interrupted run continues. A repeated one reads all photos again, sparta sync new and changed
    ones. The former index answers until the new one is complete, which keeps its fields, deletions
    and sent images, but not its dense models: add them again with sparta add --dense.

    For example:

    sparta index ~/Pictures --out index/

    sparta index features/ --model model/ --out index/

    sparta index ~/Pictures --model openai/clip-vit-base-patch32 --out index/

    sparta index photos/ --out index/ --top-n 200 --frequencies queries.txt
    """
    from sparta.extras import set_up_libraries

    set_up_libraries()
    from indexer.build import build_index, check_out
    from indexer.encoding.features import imported, open_images
    from indexer.fields.kinds import declared_kinds
    from indexer.metadata import imported_metadata, read_metadata
    from sparta.console import Console
    from sparta.extract.photos import Choice
    from sparta.progress import progress_bars

    check_out(out)
    if lucene:
        check_installed("lucene", *PACKAGES)
    choice = _named_or_given(prefer, top_n, bits, frequency_power)
    places = [folder_at(place) for place in features]
    model = [_adapted(name, places[0], device) for name in model]
    pruning = _pruning(choice, offset, terms, frequencies)
    kinds, about = declared_kinds(field), read_metadata(metadata) if metadata else {}
    console, lines, chosen = Console(), list[str](), Choice(include, exclude)
    say = partial(console.print, soft_wrap=True, highlight=False)
    with (
        connected(ray, device) as cluster,
        progress_bars(STAGES, console) as show,
        imported(places, model, out, show) as stores,
    ):
        images = open_images(
            stores or places,
            model,
            out,
            augmentations=augmentations,
            keep_features=keep_features,
            device=device,
            cluster=cluster,
            bfloat16=bfloat16,
            choice=chosen,
            progress=show,
            notice=say,
        )
        manifest = build_index(
            images,
            model,
            out,
            pruning,
            metadata=about if metadata else imported_metadata(images),
            kinds=kinds,
            read_photos=photo_metadata,
            chosen=chosen,
            batch_size=batch_size,
            device=device,
            shards=shards,
            rerank=rerank,
            lucene=lucene is not False,
            cluster=cluster,
            progress=show,
            notice=lines.append,
        )
    for line in (summary(manifest), *lines):
        say(f"{out}: {line}")
    for line in _hints(manifest, frequencies, out, lucene):
        say(line)


def _adapted(name: str, photos: Path, device: str) -> str:
    """A VisualSparta model; of a dual encoder, the one of its term vectors, perhaps made now."""
    from sparta.model_id import read_model_config

    if read_model_config(name, (), "model", "--model").get("model_type") == "visual_sparta":
        return name
    check_installed("train", "torch", "transformers")
    from sparta.adapt.adapt import STAGES as ADAPTING
    from sparta.adapt.adapt import cached_model
    from sparta.console import Console
    from sparta.progress import progress_bars

    with progress_bars(ADAPTING, Console()) as show:
        return str(cached_model(name, photos, device, show))


def _pruning(choice: Json, offset: str, terms: str, frequencies: str) -> PruningSettings:
    """Checked before photos are extracted."""
    kinds = {"offset": offset, "terms": terms, "frequencies": frequencies}
    found = PruningSettings(**choice | kinds)
    if frequencies not in FREQUENCY_KINDS:
        from indexer.encoding.impacts import read_queries

        read_queries(frequencies)
    return found


def _hints(manifest: Manifest, frequencies: str, out: Path, lucene: bool | None) -> Iterator[str]:
    from indexer.manifest import LUCENE, index_folders, located
    from sparta.features.record import skipped_summary

    if frequencies == "model" and manifest.frequencies == "none" and manifest.top_n is not None:
        yield NO_FREQUENCIES
    if (index_folders(out)[0] / LUCENE).is_dir():
        yield "Lucene's form of it, for Pyserini and --engine lucene, was written, too."
    elif lucene is None:
        yield f"Not in Lucene's form, which Pyserini reads: that needs {how_to_install('lucene')}"
    if skipped := skipped_summary(located(out)):
        yield skipped


def _named_or_given(
    prefer: str | None, top_n: str | None, bits: int | None, frequency_power: float | None
) -> Json:
    """The values of the named choice, but for options that are given."""
    if prefer not in (None, *PREFERENCES):
        raise InputError(f"--prefer must be one of {', '.join(PREFERENCES)}, got {prefer!r}")
    given = {"bits": bits, "frequency_power": frequency_power}
    choice: Json = (PREFERENCES[prefer] if prefer else USUAL)._asdict()
    choice |= {name: value for name, value in given.items() if value is not None}
    if top_n is None:
        return choice
    if top_n != "all" and not top_n.isdecimal():
        raise InputError(f"--top-n must be a number or all, got {top_n!r}")
    return choice | {"top_n": None if top_n == "all" else int(top_n)}
