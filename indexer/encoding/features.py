"""Feature stores to encode: opened, or extracted from photos as the models require; checked."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from indexer.encoding.models import ReadConfig
from indexer.manifest import Manifest, check_whole, is_index
from sparta.addresses import id_problem, is_remote
from sparta.cluster import Cluster
from sparta.errors import InputError
from sparta.extract.job import extract_augmented
from sparta.extract.photos import DEFAULT, Choice, find_photos, list_photos
from sparta.features.record import (
    BFLOAT16,
    JOINT,
    DetectorSettings,
    FeatureSource,
    Skipped,
    extract_command,
    read_skipped,
)
from sparta.features.store import HEADER, FeatureStore, Stamps
from sparta.files import beside, check_name, remove_entry, work_folder, writing
from sparta.model_id import read_model_config
from sparta.progress import Notice, Progress, no_notice, no_progress
from sparta.readers import embeddings
from sparta.readers.registry import import_features, open_reader

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

log = logging.getLogger(__name__)

# `model_type` of a configuration → title, for messages.
KINDS = {"visual_sparta": "VisualSparta model", "vse": "dense model"}
ModelKind = Literal["visual_sparta", "vse"]


# ---- to build an index of ------------------------------------------------------------------------

AT_ONCE = 2000  # photos whose features are on the disk together: 340 MB of the shipped model's


@dataclass(frozen=True)
class Photos:
    """A folder of photos whose features are extracted some at a time, and not kept.

    Attributes:
        folder: of the photos.
        stamps: of the photos, by rising id.
        source: of the features that the models take.
        extract: makes a folder's stores, one for each augmentation, of the photos with some stamps.
    """

    folder: Path
    stamps: Stamps
    source: FeatureSource
    extract: Callable[[Path, Stamps, Progress], list[FeatureStore]]

    def key(self, stamps: Stamps) -> str:
        """Names what the features of some of the photos depend on."""
        content = [self.source.content, list(stamps.items())]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]

    @cached_property
    def first(self) -> Stamps:
        """Of at most 2,000 photos from the whole folder."""
        step = -(-len(self.stamps) // AT_ONCE)
        return dict(islice(self.stamps.items(), 0, None, step))

    def open_first(self, work: Path, progress: Progress) -> list[FeatureStore]:
        """The features of the first photos, which stay in the work folder."""
        return self._extract(work, "sample", self.first, 0, progress)

    def parts(
        self, done: Container[str], work: Path, progress: Progress
    ) -> Iterator[tuple[Stamps, list[FeatureStore]]]:
        """All photos that are not done, 2,000 at a time, each with the features in its turn."""
        left = {image_id: one for image_id, one in self.stamps.items() if image_id not in done}
        before, rest = len(self.stamps) - len(left), iter(left.items())
        while stamps := dict(islice(rest, AT_ONCE)):
            yield stamps, self._extract(work, "features", stamps, before, progress)
            before += len(stamps)

    def _extract(
        self, work: Path, kind: str, stamps: Stamps, before: int, progress: Progress
    ) -> list[FeatureStore]:
        """Features of some photos, in place of those of others of this kind."""
        folder = work / f"{kind}-{self.key(stamps)}"
        for other in work.glob(f"{kind}-*"):
            if other != folder:
                remove_entry(other)
        part = part_of(progress, before, len(stamps), len(self.stamps))
        return self.extract(folder, stamps, part)


def part_of(progress: Progress, before: int, count: int, total: int) -> Progress:
    """Progress of `count` images as a part of the whole.

    An extraction counts its images once for each augmentation.
    """

    def whole(stage: str, done: int, of: int) -> None:
        if stage in ("extract", "encode"):
            times = max(1, of // count)
            done, of = times * before + done, times * total
        progress(stage, done, of)

    return whole


def open_images(
    folders: Sequence[Path],
    models: Sequence[str | Path],
    out: Path,
    *,
    augmentations: int | None = None,
    keep_features: bool = False,
    device: str = "auto",
    cluster: Cluster | None = None,
    bfloat16: bool = True,
    choice: Choice = DEFAULT,
    progress: Progress = no_progress,
    notice: Notice = no_notice,
) -> list[FeatureStore] | Photos:
    """Open feature stores, or one folder of photos to be extracted as the models require.

    With `keep_features`, or where there are some, photos' features are extracted to `OUT.features`,
    which takes those of unchanged photos from there; once for each augmentation (1 if None). A
    cluster's workers extract, None for this process. Progress has the stage "extract", in photos;
    `notice` gets lines about the photos. Raises InputError if the folders are something else, or as
    `extract_stores`.
    """
    check_name(out)
    check_whole(out)
    for folder in folders:
        if not folder.is_dir():
            state = "is not a folder" if folder.exists() else "does not exist"
            raise InputError(f"{folder} {state}: give feature stores or a folder of photos")
        if is_index(folder):
            raise InputError(
                f"{folder} is an index: give the photos or feature stores to build one from"
            )
    stores = [folder for folder in folders if (folder / HEADER).is_file()]
    if not stores and len(folders) == 1:
        source = feature_source(models, "visual_sparta")
        extract = partial(
            extract_stores,
            folders[0],
            source,
            augmentations=augmentations or 1,
            device=device,
            notice=notice,
            cluster=cluster,
            bfloat16=bfloat16,
        )
        ids, kept = find_photos(folders[0], choice, notice), out.with_name(f"{out.name}.features")
        stamps = list_photos(folders[0], ids, notice)
        if keep_features or kept.is_dir():
            return extract(kept, stamps, progress)
        return Photos(folders[0], stamps, source, partial(extract, needed=False))
    if augmentations is not None:
        raise InputError(
            "--augmentations is for a folder of photos: give one feature store per augmentation "
            "instead"
        )
    for folder in folders:
        if folder not in stores:
            raise InputError(
                f"{folder} is not a feature store (no {HEADER} in it): give one folder of photos "
                "alone, or feature stores"
            )
    return [FeatureStore.open(folder) for folder in folders]


@contextmanager
def imported(
    paths: Sequence[Path], models: Sequence[str | Path], out: Path, progress: Progress
) -> Iterator[list[Path]]:
    """A feature store beside `out` until the end, of paths that look like embeddings; else none.

    Progress has the stage "import". Raises InputError as the reader, or if a model takes others.
    """
    if not paths or any(is_remote(path) or not embeddings.fits(path) for path in paths):
        yield []
        return
    reader = open_reader("embeddings", paths)
    for name in models:
        check_features(name, ReadConfig.open(name), reader.source, paths[0])
    added = beside(out, ".added")
    with writing(added), work_folder(added) as work:
        import_features(reader, work / "features", progress)
        yield [work / "features"]


def extract_stores(
    photos: Path,
    source: FeatureSource,
    out: Path,
    stamps: Stamps,
    progress: Progress = no_progress,
    *,
    augmentations: int = 1,
    needed: bool = True,
    device: str = "auto",
    notice: Notice = no_notice,
    cluster: Cluster | None = None,
    bfloat16: bool = True,
) -> list[FeatureStore]:
    """Extract photos as a model's features were, once for each augmentation, into `out/plain` etc.

    `stamps` are of the photos to take, as `list_photos` gives them; unless one is `needed`, none
    may be usable. Raises InputError as `extract_photos`.
    """
    return extract_augmented(
        photos,
        out,
        source.backbone or None,
        augmentations,
        stamps=stamps,
        needed=needed,
        detection=DetectorSettings.of(source),
        image_size=source.image_size or None,
        labels=source.label_count,
        grid=source.extra.get("grid"),
        device=device,
        cluster=cluster,
        bfloat16=bfloat16,
        joint=source.extra.get("space") == JOINT,
        progress=progress,
        notice=notice,
    )


def none_usable(photos: Path, skipped: Sequence[Skipped]) -> InputError:
    """Why there is nothing to write."""
    more = f" (and {len(skipped) - 1} more)" if len(skipped) > 1 else ""
    first = f"{photos / skipped[0].image_id}: {skipped[0].reason}"
    return InputError(f"no photo could be used: {first}{more}")


# ---- to add to an index --------------------------------------------------------------------------


@contextmanager
def opened_stores(
    index: Path,
    photos: Sequence[Path],
    features: Sequence[Path],
    models: Sequence[str | Path],
    device: str = "auto",
    progress: Progress = no_progress,
    kind: ModelKind = "visual_sparta",
    choice_of: Callable[[Path], Choice] = lambda _: DEFAULT,
    notice: Notice = no_notice,
) -> Iterator[tuple[list[FeatureStore], list[Skipped]]]:
    """Open feature stores, or extract photos as the index's were, for models to read.

    Yields the stores, the plain one first, and the photos that cannot be used. Stores of photos are
    removed at the end. Progress has the stage "extract", in photos, over all augmentations.

    Raises:
        InputError: if a store or a photo does not exist, no photo can be used, or the index is a
            shard.
    """
    check_whole(index)
    manifest = Manifest.of(index)
    if features:
        yield [FeatureStore.open(folder) for folder in features], []
        return
    folder, ids = choose_photos(photos, manifest.photos, choice_of, notice)
    added, source = beside(index, ".added"), feature_source(models, kind)
    with writing(added), work_folder(added) as work:
        stores = extract_stores(
            folder,
            source,
            work,
            list_photos(folder, ids),
            progress,
            augmentations=len(manifest.features) if kind == "visual_sparta" else 1,
            needed=False,
            device=device,
            bfloat16=manifest.precision == BFLOAT16,
        )
        skipped = read_skipped(stores[0].folder)
        if not len(stores[0]):
            raise none_usable(folder, skipped)
        yield stores, skipped


def choose_photos(
    paths: Sequence[Path],
    photos: str | None,
    choice_of: Callable[[Path], Choice] = lambda _: DEFAULT,
    notice: Notice = no_notice,
) -> tuple[Path, list[str]]:
    """Find photos, in folders at any depth, and give them ids as `sparta index` would.

    Photos in the folder that the index was built from have ids relative to it. Others must be in
    one folder, to which theirs are relative; `choice_of` it are those to take. Returns that folder,
    and the ids, sorted, each once.
    Raises InputError if a path does not exist, a folder has no photo, or they are in several
    others.
    """
    for path in paths:
        try:
            path.lstat()
        except (FileNotFoundError, NotADirectoryError) as error:
            raise InputError(f"{path} does not exist: give photos, or folders of photos") from error
        except OSError:
            continue  # it is reported with the photos that cannot be read
    # The last part of a photo's path is its name, even if that is a link.
    folders = [os.path.isdir(path) for path in paths]  # noqa: PTH112
    places = [_real(path if one else path.parent) for path, one in zip(paths, folders, strict=True)]
    folder = _common_folder(places, _real(Path(photos)) if photos else None)
    ids: set[str] = set()
    choice = choice_of(folder) if any(folders) else DEFAULT
    for path, place, is_folder in zip(paths, places, folders, strict=True):
        inside = place.relative_to(folder)
        own = choice._replace(below="" if place == folder else f"{inside.as_posix()}/")
        names = find_photos(place, own, notice) if is_folder else [path.name]
        ids |= {(inside / name).as_posix() for name in names}
    return folder, sorted(ids)


def _real(path: Path) -> Path:
    """A path without links; unlike `resolve`, also of links in a circle and over-long names."""
    return Path(os.path.realpath(path))


def _common_folder(places: Sequence[Path], photos: Path | None) -> Path:
    """The index's folder of photos if it contains all places, else the one place there is."""
    if photos is not None and all(place.is_relative_to(photos) for place in places):
        return photos
    if len(set(places)) > 1:
        raise InputError(
            f"{places[0]} and {places[1]} are not both in the folder that the index was built from"
            f" ({photos or 'which it does not record'}): add one folder at a time"
        )
    return places[0]


# ---- checks --------------------------------------------------------------------------------------


def check_stores(
    stores: Sequence[FeatureStore], models: Sequence[tuple[str | Path, ReadConfig]] = ()
) -> None:
    """Refuse stores that are not augmentations of the same photos, the plain store first.

    Nor may an image have an id that an index cannot have, or a model take other features. Raises
    InputError, which names what differs.
    """
    if not stores:
        raise InputError("no features: give at least one feature store")
    first = stores[0]
    if not len(first):
        raise InputError(f"{first.folder} holds no image: there is nothing to index")
    if first.augmentation != "plain":
        raise InputError(
            f"{first.folder} has augmentation {first.augmentation}, whose boxes do not fit the "
            "photos: give the plain feature store first"
        )
    for image_id in first.ids:
        if problem := id_problem(image_id):
            raise InputError(
                f"{first.folder}: the image id {image_id[:50]!r} {problem}; extract or import the "
                "features again, into another folder"
            )
    for store in stores[1:]:
        check_same_images(store, first.ids, first.folder)
    sources = [
        (f"{one.folder} has other features than {first.folder}", first.source, one.source, "")
        for one in stores[1:]
    ]
    _refuse([*sources, *(_taken(*model, first.source, first.folder) for model in models)])
    if first.source.unknown_encoder and models:
        log.warning("the embeddings are taken to be from the encoder of --model %s", models[0][0])


def check_same_images(store: FeatureStore, ids: Sequence[str], folder: Path) -> None:
    """Refuse a store whose images are not those of another folder, in the same order.

    Raises InputError, which names the first difference and the folder.
    """
    for row, (wanted, found) in enumerate(zip_longest(ids, store.ids)):
        if wanted != found:
            raise InputError(
                f"{store.folder} has other images than {folder}: image {row} is "
                f"{found or 'missing'} instead of {wanted or 'absent'}"
            )


def check_features(
    name: str | Path, config: ReadConfig | PreTrainedConfig, source: FeatureSource, where: Path
) -> None:
    """Refuse features, those at `where`, that a model was not trained on.

    Raises InputError, which names what differs: the model's against the store's.
    """
    _refuse([_taken(name, config, source, where)])


# Two sources that should be the same, between what is said if they differ.
Comparison: TypeAlias = tuple[str, FeatureSource, FeatureSource, str]


def _taken(
    name: str | Path, config: ReadConfig | PreTrainedConfig, source: FeatureSource, where: Path
) -> Comparison:
    """What a model was trained on, and features."""
    if config.feature_source is None:
        if source.dimension != config.feature_dim:
            raise InputError(
                f"{where} has features of {source.dimension} numbers, --model {name} takes "
                f"{config.feature_dim}"
            )
        return "", source, source, ""
    wanted = FeatureSource(**config.feature_source)
    patches = (getattr(config, "encoder", None) or {}).get("patches")
    if source.unknown_encoder and (patches or wanted.differences(source)):
        raise InputError(
            f"{where} holds embeddings of {source.dimension} numbers, which --model {name} cannot "
            "take: give a model that sparta adapt made of their encoder, without --patches"
        )
    said = f"{where} holds other features than --model {name} was trained on (the model's against "
    remedy = f". Make them with {extract_command(wanted)}"
    return f"{said}the store's)", wanted, source, remedy


def _refuse(comparisons: Sequence[Comparison]) -> None:
    for said, wanted, found, remedy in comparisons:
        if differences := wanted.differences(found):
            raise InputError(f"{said}: {'; '.join(differences)}{remedy}")


def feature_source(models: Sequence[str | Path], kind: ModelKind) -> FeatureSource:
    """What made the features that all the models were trained on.

    Raises InputError if there is no model, one does not record it, two disagree, or it is a
    detector that is not available.
    """
    if not models:
        raise InputError("no --model: give at least one")
    sources = {}
    for name in models:
        recorded = read_model_config(name, (kind,), KINDS[kind], "--model").get("feature_source")
        if recorded is None:
            raise InputError(
                f"--model {name} does not record what made its features: run sparta extract first"
            )
        sources[name] = FeatureSource(**recorded)
    chosen, first = next(iter(sources.items()))
    for name, source in sources.items():
        if differences := first.differences(source):
            raise InputError(
                f"--model {name} takes other features than --model {chosen}: "
                f"{'; '.join(differences)}"
            )
    if first.kind == "region" and not first.detector:
        raise InputError(
            f"--model {chosen} takes regions of a detector that is not available "
            f"({first.backbone}): give a feature store of such regions instead of photos"
        )
    return first
