"""`sparta index`."""

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from indexer.commands.options import BatchSize, Device, ReadPhotos
from indexer.settings import PREFERENCES, USUAL, Preference
from sparta.addresses import folder_at
from sparta.cluster import connected
from sparta.commands.options import Ray
from sparta.errors import InputError

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
    from indexer.commands.building import NO_FREQUENCIES, STAGES, summary
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
