"""Indexes that take one another's place, by one exchange of names or where there can be none."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from indexer.build import build_index
from indexer.dense.build import add_dense
from indexer.dense.manifest import dense_names
from indexer.engines.open import open_index
from indexer.maintenance.combine import merge_segments, split_index
from indexer.maintenance.copies import (
    put,
    renew,
    replacing,
    restore_snapshot,
    set_alias,
    take_snapshot,
)
from indexer.maintenance.info import index_info
from indexer.manifest import LUCENE, located
from indexer.update.images import delete_images
from indexer.update.writer import open_writer
from indexer.verify import verify_index
from sparta import files
from sparta.errors import InputError
from sparta.features.store import FeatureStore
from tests.indexer.random_postings import MakeIndex, random_postings
from tests.indexer.vocabulary import COMMON, TOKENIZER
from tests.killed import BIND, RDONLY, REMOUNT, apart, forked, kills, mount
from tests.needs import EVERY, crossed

needs_mounts = pytest.mark.needs("mounts")


@pytest.fixture
def ten(tmp_path: Path, make_index: MakeIndex) -> Path:
    """An index of ten images, without Lucene's, which takes seconds to open."""
    index = make_index(tmp_path / "ten", random_postings(TOKENIZER, 10))
    shutil.rmtree(index / LUCENE, ignore_errors=True)
    return index


@pytest.fixture
def nine(tmp_path: Path, ten: Path) -> Path:
    """A snapshot without the first of them."""
    copy = Path(shutil.copytree(ten, tmp_path / "nine"))
    delete_images(copy, ["a/00000 é.jpg"])
    return copy


def count(index: Path) -> int:
    """How many images a search finds."""
    with_all = open_index(index)
    found = len(with_all.search(COMMON, 100).hits)
    with_all.close()
    return found


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


# ---- killed at each call -------------------------------------------------------------------------


def sharded(ten: Path, out: Path) -> Path:
    split_index(ten, out, 2)
    return out


@pytest.mark.parametrize(
    ("where", "exchanged"),
    crossed(["index", "alias", "sharded", "nothing", "empty folder"], [True, False]),
)
def test_a_killed_restore(
    ten: Path, nine: Path, tmp_path: Path, where: str, exchanged: bool
) -> None:
    (tmp_path / "place").mkdir()
    index = tmp_path / "place" / "index"
    if where == "sharded":
        ten = sharded(ten, tmp_path / "sharded")
    if where == "alias":
        shutil.copytree(ten, index)
        set_alias(tmp_path / "prod", index)
    apart(_kill_restores, ten, nine, index, where, exchanged)


def _kill_restores(ten: Path, nine: Path, index: Path, where: str, exchanged: bool) -> None:
    if not exchanged:
        files._exchange = lambda *_: False
    named = index.parents[1] / "prod" if where == "alias" else index
    former = where in ("index", "alias", "sharded")

    def begin() -> None:
        shutil.rmtree(index.parent)
        index.parent.mkdir()
        if former:
            shutil.copytree(ten, index)
        elif where == "empty folder":
            index.mkdir()

    for call in kills(begin, restore_snapshot, nine, named):
        if former:
            assert forked(count, named) in (9, 10), call
        forked(_restore_again, nine, named, {9, 10} if former else {9})
        left = {one for one in names(index.parent) if ".before-" not in one}
        assert left == {"index"}, call
        if located(index) != index:
            numbers = range(1, 1 + int(located(index).name[-3:]))
            left = {name for name in names(index) if not name.endswith(".lock")}  # of the killed
            assert left <= {"manifest.json", *(f"index-{one:03d}" for one in numbers)}, call


def _restore_again(nine: Path, index: Path, right: set[int]) -> None:
    aside = restore_snapshot(nine, index)
    assert count(index) == 9 and not verify_index(index)
    asides = {*index.resolve().parent.glob("*.before-*"), *([aside] if aside else [])}
    assert {count(one) for one in asides} <= right


def test_a_killed_change_of_a_name_leaves_no_folder(ten: Path, nine: Path, tmp_path: Path) -> None:
    (tmp_path / "names").mkdir()
    apart(_kill_changes_of_an_alias, ten, nine, tmp_path / "names" / "prod")


def _kill_changes_of_an_alias(ten: Path, nine: Path, alias: Path) -> None:
    for call in kills(lambda: set_alias(alias, ten), set_alias, alias, nine):
        assert forked(count, alias) in (9, 10), call
        assert not [
            path for path in alias.parent.iterdir() if not path.is_symlink() and path.is_dir()
        ]
        set_alias(alias, ten)
        assert names(alias.parent) == {"prod"}


@pytest.mark.parametrize(("exchanged", "shards"), crossed([True, False], [1, 2]))
def test_a_killed_replacement(
    ten: Path, nine: Path, tmp_path: Path, exchanged: bool, shards: int
) -> None:
    """As a rebuild does it, with the former index in the folder, or in one of its own there."""
    former = sharded(ten, tmp_path / "sharded") if shards > 1 else ten
    apart(_kill_replacements, former, nine, tmp_path / "place" / "index", exchanged)


def _replace(source: Path, index: Path) -> None:
    with replacing(index) as place, files.work_folder(place) as work:
        shutil.copytree(source, work / "new")
        put(work / "new", index, place, work)


def _kill_replacements(former: Path, new: Path, index: Path, exchanged: bool) -> None:
    if not exchanged:
        files._exchange = lambda *_: False

    def begin() -> None:
        shutil.rmtree(index, ignore_errors=True)
        shutil.copytree(former, index)

    for call in kills(begin, _replace, new, index):
        assert forked(count, index) in (9, 10), call
        forked(_replace, former, index)
        assert forked(count, index) == 10
        assert names(index.parent) == {"index"}, call
        if not exchanged:
            left = {name for name in names(index) if not name.endswith(".lock")}  # of the killed
            assert left == {"manifest.json", located(index).name}, call


# ---- folders that cannot be renamed --------------------------------------------------------------

Make = Callable[[Path, Path], Path]  # a folder for mounts, an index to begin with → where it is


def tmpfs(place: Path, begin: Path) -> Path:
    place.mkdir()
    mount("tmpfs", place, "tmpfs")
    (place / "lost+found").mkdir()
    shutil.copytree(begin, place, dirs_exist_ok=True)
    return place


def bind(place: Path, begin: Path) -> Path:
    source = Path(shutil.copytree(begin, place.parent / "source"))
    place.mkdir()
    mount(source, place, flags=BIND)
    return place


def read_only_parent(place: Path, begin: Path) -> Path:
    shutil.copytree(begin, place / "index")
    mount(place, place, flags=BIND)
    mount(place / "index", place / "index", flags=BIND)
    mount("", place, flags=REMOUNT | BIND | RDONLY)
    return place / "index"


def lower_layer(place: Path, begin: Path) -> Path:
    place.mkdir()
    mount("tmpfs", place, "tmpfs")
    for name in ("lower", "upper", "work", "merged"):
        (place / name).mkdir()
    shutil.copytree(begin, place / "lower" / "index")
    layers = f"lowerdir={place}/lower,upperdir={place}/upper,workdir={place}/work"
    mount("overlay", place / "merged", "overlay", data=layers)
    return place / "merged" / "index"


MADE = (tmpfs, bind, read_only_parent, lower_layer)


@needs_mounts
@pytest.mark.parametrize(("make", "shards"), crossed(MADE, [1, 2]))
def test_it_is_written_replaced_and_restored(
    ten: Path, nine: Path, tmp_path: Path, make: Make, shards: int
) -> None:
    former = sharded(ten, tmp_path / "sharded") if shards > 1 else ten
    apart(_write_and_restore, make, former, nine, tmp_path, mounts=True)


def _write_and_restore(make: Make, former: Path, nine: Path, work: Path) -> None:
    index, first = make(work / "mount", former), "a/00001 é.jpg"
    opened = open_index(index)
    delete_images(index, [first])
    assert count(index) == 9 and verify_index(index) == []
    aside = restore_snapshot(nine, index)
    assert aside is not None and count(aside) == 9 == count(index)
    assert first in {hit.image_id for hit in open_index(index).search(COMMON).hits}
    assert len(opened.search(COMMON, 100).hits) == 10  # it goes on
    newer = opened.refreshed()
    assert newer is not None and len(newer.search(COMMON, 100).hits) == 9
    delete_images(index, [first, "a/00002 é.jpg"])
    merge_segments(index)
    take_snapshot(index, work / "snapshot")
    assert verify_index(index) == [] == verify_index(work / "snapshot")
    assert index_info(index).images == 7 == count(index)
    shutil.rmtree(aside)
    assert names(index) - {"lost+found"} == {"manifest.json", located(index).name}


@needs_mounts
@pytest.mark.parametrize("make", MADE if EVERY else [tmpfs, lower_layer])
def test_it_survives_kills(ten: Path, nine: Path, tmp_path: Path, make: Make) -> None:
    apart(_kill_in_mount, make, ten, nine, tmp_path, mounts=True)


def _kill_in_mount(make: Make, ten: Path, nine: Path, work: Path) -> None:
    places: list[Path] = []

    def begin() -> None:
        place = work / str(len(places))
        place.mkdir()
        places.append(make(place / "mount", ten))

    def restore() -> None:
        restore_snapshot(nine, places[-1])

    for call in kills(begin, restore):
        index = places[-1]
        assert forked(count, index) in (9, 10), call
        forked(_restore_again, nine, index, {9, 10})
        asides = names(index) - {"manifest.json", "lost+found", located(index).name}
        asides -= {name for name in asides if name.endswith(".lock")}  # of the killed process
        assert asides and all(forked(count, index / name) in (9, 10) for name in asides), call


@needs_mounts
@pytest.mark.parametrize(("make", "shards"), crossed([None, *MADE], [None, 2]))
def test_it_is_built(
    store: FeatureStore,
    model_dir: Path,
    dense_model: Path,
    sparse_index: Path,
    tmp_path: Path,
    make: Make | None,
    shards: int | None,
) -> None:
    """First in an empty mount, then again, and where a former one lies as it was copied there."""
    models = model_dir, dense_model
    apart(_build, make, sparse_index, store.folder, models, shards, tmp_path / "mount", mounts=True)


def _build(
    make: Make | None,
    former: Path,
    features: Path,
    models: tuple[Path, Path],
    shards: int | None,
    index: Path,
) -> None:
    store = FeatureStore.open(features)
    if make is None:
        index.mkdir()
        mount("tmpfs", index, "tmpfs")
        (index / "lost+found").mkdir()
    else:
        index = make(index, former)
    for _ in range(2):
        build_index([store], [models[0]], index, device="cpu", shards=shards)
        assert len(open_index(index)) == len(store) and verify_index(index) == []
        assert names(index) - {"lost+found"} == {"manifest.json", located(index).name}
    if not shards:
        add_dense(index, store, "vse", models[1], device="cpu")
        assert dense_names(index) == ["vse"]


@needs_mounts
@pytest.mark.parametrize("part", [LUCENE, "dense/vse"])
def test_folders_within_a_lower_layer_are_replaced(
    store: FeatureStore, dense_model: Path, sparse_index: Path, tmp_path: Path, part: str
) -> None:
    built = Path(shutil.copytree(sparse_index, tmp_path / "built"))
    add_dense(built, store, "vse", dense_model, device="cpu")
    apart(_renew, built, store.folder, dense_model, part, tmp_path / "mount", mounts=True)


def _renew(built: Path, features: Path, model: Path, part: str, place: Path) -> None:
    index, store = lower_layer(place, built), FeatureStore.open(features)
    for number in (1, 2):
        if part == LUCENE:
            delete_images(index, [store.ids[number]])
            merge_segments(index)
        else:
            renew(index, part)
            add_dense(index, store, "vse", model, device="cpu")
        assert dense_names(index) == ["vse"] and verify_index(index) == []
        assert len(open_index(index)) == len(store) - number * (part == LUCENE)


@needs_mounts
def test_writers_that_see_other_folders_beside_exclude_one_another(
    ten: Path, nine: Path, tmp_path: Path
) -> None:
    apart(_exclude, ten, nine, tmp_path / "container", mounts=True)


def _exclude(ten: Path, nine: Path, inside: Path) -> None:
    inside.mkdir()
    mount(ten, inside, flags=BIND)
    for here, there in ((ten, inside), (inside, ten)):
        with open_writer(here):
            with pytest.raises(InputError, match="is being written by process"):
                delete_images(there, ["a/00002 é.jpg"])
            with pytest.raises(InputError, match="is being written by process"):
                restore_snapshot(nine, there)
    restore_snapshot(nine, inside)
    assert count(ten) == count(inside) == 9
    restore_snapshot(nine, ten)  # which does not replace the folder under the container
    assert ten.samefile(inside) and count(inside) == 9


@needs_mounts
def test_what_cannot_be_written_is_refused_before_the_work(
    ten: Path, nine: Path, store: FeatureStore, model_dir: Path
) -> None:
    apart(_refuse, ten, nine, store.folder, model_dir, mounts=True)


def _refuse(ten: Path, nine: Path, features: Path, model: Path) -> None:
    for folder in (ten, nine):
        mount(folder, folder, flags=BIND)
        mount("", folder, flags=REMOUNT | BIND | RDONLY)
    words = "cannot be written .*Read-only file system.*: allow or mount it for writing"
    for out in (ten, ten / "new"):
        with pytest.raises(InputError, match=words):
            build_index([FeatureStore.open(features)], [model], out, device="cpu")
        with pytest.raises(InputError, match=words):
            restore_snapshot(nine, out)
    with pytest.raises(InputError, match=words):
        delete_images(ten, ["a/00001 é.jpg"])
    assert count(ten) == 10
