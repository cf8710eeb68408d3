"""The number of shards is changed after writes; what a sharded index has is that of a whole one."""

import hashlib
import json
import random
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import indexer.maintenance.combine as combine
from indexer.build import build_index
from indexer.engines.open import open_index
from indexer.maintenance.combine import merge_indexes, merge_segments, split_index
from indexer.maintenance.copies import restore_snapshot, take_snapshot
from indexer.manifest import UPLOAD, UPLOADS, Manifest, index_folders, owner
from indexer.state import IndexState
from indexer.store.changes import Add, Change, Delete, MetadataChange
from indexer.store.commit import read_commit
from indexer.store.given import Given, read_given
from indexer.update.images import delete_images, update_metadata
from indexer.verify import verify_index
from sparta.errors import InputError
from sparta.features.store import FeatureStore
from tests.indexer.live_index import LiveReference, Opened, assert_same, commit_and_wait, write
from tests.indexer.random_postings import MakeIndex, random_postings
from tests.indexer.store.images import image
from tests.indexer.vocabulary import TOKENIZER
from tests.needs import EVERY, crossed

IMAGES = 40

SEEN = b"seen" + hashlib.sha256(b"seen").digest()


def given_to(index: Path) -> dict[str, list[Given]]:
    """What the user gave, wherever its changes are in a log."""
    record = read_given(index)
    return {
        one: [replace(own, sent=own.sent or "", place=(0, 0)) for own in given]
        for one, given in record.items()
    }


def random_changes(right: LiveReference, chance: random.Random, count: int) -> list[Change]:
    """Additions, replacements, descriptions and deletions, each of an image that is there."""
    new = list(random_postings(TOKENIZER, count, seed=chance.randrange(10**6)))
    ids, changes = sorted(right.images), list[Change]()
    for number, one in enumerate(new):
        kind = chance.choice(("add", "replace", "describe", "delete"))
        if kind == "add" or len(ids) < IMAGES // 2:
            added = replace(one, image_id=f"n/{chance.randrange(10**6)} {number}")
            changes.append(Add(added, {"stars": 1}, "terms"))
        else:
            image_id = ids.pop(chance.randrange(len(ids)))
            if kind == "replace":
                changes.append(Add(replace(one, image_id=image_id)))
            elif kind == "describe":
                fields = {"album": f"é {number}"}
                changes.append(MetadataChange(image_id, fields, fields))
            else:
                changes.append(Delete(image_id))
    return changes


def written(index: Path, right: LiveReference, chance: random.Random, killed: bool = False) -> None:
    """Write to an index and to what it must have; one writer may be killed after its sync."""
    for _ in range(3):
        changes = random_changes(right, chance, 8)
        write(index, *changes)
        right.apply(changes)
    opened = Opened(index)
    changes = random_changes(right, chance, 8)
    opened.writer.write(changes)
    opened.writer.sync()
    right.apply(changes)
    if killed:
        opened.kill()
        return
    commit_and_wait(opened.writer)
    opened.close()


@pytest.fixture
def right() -> LiveReference:
    return LiveReference(random_postings(TOKENIZER, IMAGES))


@pytest.fixture
def whole(tmp_path: Path, make_index: MakeIndex) -> Path:
    return make_index(tmp_path / "index", random_postings(TOKENIZER, IMAGES))


@pytest.mark.parametrize("seed", range(3 if EVERY else 1))
def test_a_sharded_index_is_as_a_whole_one_after_any_writes(
    whole: Path, right: LiveReference, tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indexer.update.writer.COMPACT_AT", 10)
    shards = tmp_path / "shards"
    split_index(whole, shards, 3)
    for index in (whole, shards):
        own = LiveReference(right.images.values())
        written(index, own, random.Random(seed))
        assert_same(open_index(index), own.searcher())
    assert given_to(whole) == given_to(shards)
    merge_segments(shards)
    assert_same(open_index(shards), own.searcher())


@pytest.mark.parametrize(("seed", "in_place"), crossed(range(2), [True, False]))
def test_shards_are_changed_in_all_directions_after_writes(
    whole: Path,
    right: LiveReference,
    tmp_path: Path,
    seed: int,
    in_place: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Answers, what was given, and acknowledged writes of a killed writer stay."""
    monkeypatch.setattr("indexer.update.writer.COMPACT_AT", 10)
    chance, index, versions = random.Random(seed), whole, set[tuple[str, int]]()
    for step, count in enumerate((1, 3, 2, 4, 4, 1, 2)):
        written(index, right, chance, killed=step % 2 == 1)
        given = given_to(index)
        former = index
        if not in_place:
            index = tmp_path / f"index-{step}"
        steps: list[tuple[str, int, int]] = []
        out = None if in_place else index
        found = merge_indexes([former], out, count, lambda *one, to=steps: to.append(one))
        assert found == len(right.images) and len(index_folders(index)) == count
        assert {total for _, _, total in steps} == {found} and steps[-1][1] == found
        assert given_to(index) == given
        assert verify_index(index) == []
        assert_same(open_index(index), right.searcher())
        version = IndexState.read(index).version
        commit = sum(read_commit(folder).version for folder in index_folders(index))
        assert (version, commit) not in versions
        versions.add((version, commit))


def test_uploads_go_where_their_images_are(whole: Path, tmp_path: Path) -> None:
    """Of two images of one photo to both shards; nobody's is kept too."""
    names = {}
    for content in ("one", "two", "nobody"):
        digest = sha256(content.encode()).hexdigest()
        names[content] = f"{digest[:2]}/{digest}.jpg"
        (whole / UPLOADS / digest[:2]).mkdir(parents=True, exist_ok=True)
        (whole / UPLOADS / names[content]).write_text(content)
    ids = [
        next(f"{n}.jpg" for n in range(99) if owner(f"{n}.jpg", 3) == number) for number in (0, 2)
    ]
    for image_id in ids:
        write(whole, Add(image(image_id, {5: 1}, {UPLOAD: names["one"]}), {}, "photo"))
    write(whole, Add(image(f"{ids[1]}.jpg", {5: 1}, {UPLOAD: names["two"]}), {}, "photo"))
    for count in (3, 2, 1):
        merge_indexes([whole], None, count)
        assert verify_index(whole) == []
        found = {path.read_text() for path in whole.rglob(f"{UPLOADS}/*/*.jpg")}
        assert found == {"one", "two", "nobody"}


def fields_of(index: Path) -> dict[str, dict[str, Any]]:
    hits = open_index(index).search("", 100).hits
    return {hit.image_id: dict(hit.metadata) for hit in hits}


@pytest.mark.parametrize("counts", [(2,), (2, 3), (3, 1), (1,)])
def test_a_rebuild_keeps_what_was_given_before(
    store: FeatureStore, model_dir: Path, tmp_path: Path, counts: Sequence[int]
) -> None:
    index, (first, second, third, *_) = tmp_path / "index", store.ids
    build_index([store], [model_dir], index, device="cpu", metadata={first: {"album": "Crete"}})
    write(
        index, Add(image("sent", {5: 100, 7: 100}, {"album": "Rome"}), {"album": "Rome"}, "terms")
    )
    update_metadata(index, {first: {"rating": 5}, second: {"note": "mine"}})
    delete_images(index, [third])
    for count in counts:
        merge_indexes([index], None, count)
        update_metadata(index, {second: {"count": count}})
    before = fields_of(index)
    assert third not in before and before[first] == {**before[first], "album": "Crete", "rating": 5}
    said: list[str] = []
    build_index([store], [model_dir], index, device="cpu", notice=said.append)
    assert said == [
        "kept of the former index: images with fields: 2, deletions: 1, images sent or added: 1"
    ]
    assert fields_of(index) == before and verify_index(index) == []


def test_nothing_is_changed_unless_all_can_be(
    whole: Path, right: LiveReference, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While somebody writes, to any shard; without room, killed, or with a shard without images."""
    merge_indexes([whole], None, 2)

    def refused(problem: str, count: int = 3, out: Path | None = None) -> None:
        with pytest.raises(InputError, match=problem):
            merge_indexes([whole], out, count)
        assert_same(open_index(whole), right.searcher(), [3])
        assert not [*tmp_path.glob(".index.work-*")]

    opened = Opened(whole)
    refused("index/shard-000 is being written by process")
    merge_indexes([whole], tmp_path / "beside", 3)  # as of now
    assert_same(open_index(tmp_path / "beside"), right.searcher(), [3])
    opened.close()
    refused("^--shards 40: of 40 images none is in shard", 40)
    refused("beside exists: give a new folder", out=tmp_path / "beside")
    (whole / "shard-001" / "dense" / "vse").mkdir(parents=True)
    (whole / "shard-001" / "dense" / "vse" / "manifest.json").touch()
    refused(r"shard-001 has dense parts \(vse\), which do not merge")
    (whole / "shard-001" / "dense" / "vse" / "manifest.json").unlink()
    with monkeypatch.context() as patch:
        patch.setattr("shutil.disk_usage", lambda _: type("", (), {"free": 1000})())
        refused("the disk has 0.0 GB free")
    for name in ("write_combined", "write_given", "put"):

        def killed(*_: object, **__: object) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(combine, name, killed)
            with pytest.raises(KeyboardInterrupt):
                merge_indexes([whole], None, 3)
        assert_same(open_index(whole), right.searcher(), [3])
    merge_indexes([whole], None, 3)
    assert_same(open_index(whole), right.searcher(), [3])


def test_an_alias_stays_and_its_index_changes(whole: Path, tmp_path: Path) -> None:
    (alias := tmp_path / "prod").symlink_to("index")
    merge_indexes([alias], None, 2)
    assert alias.is_symlink() and len(index_folders(whole)) == 2
    created = Manifest.of(whole).created
    merge_indexes([alias], None, 1)
    assert Manifest.open(whole).created == created


def test_a_writer_that_waited_writes_to_no_other_shards(
    whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An index that is divided anew while a writer takes its locks."""
    split_index(whole, whole.with_name("two"), 2)
    import indexer.update.writer as writer

    opened = writer.open_whole

    def late(folder: Path, *options: bool) -> Any:
        monkeypatch.setattr(writer, "open_whole", opened)
        merge_indexes([whole.with_name("two")], None, 3)
        return opened(folder, *options)

    monkeypatch.setattr(writer, "open_whole", late)
    with pytest.raises(InputError, match="was divided anew meanwhile: start again"):
        write(whole.with_name("two"), Delete("a"))


def test_a_sharded_index_is_copied_and_put_back(
    whole: Path, right: LiveReference, tmp_path: Path
) -> None:
    """With acknowledged changes that nobody committed; no writer may be open."""
    merge_indexes([whole], None, 3)
    written(whole, right, random.Random(1), killed=True)
    (whole / "sync").mkdir()
    (whole / "sync" / "x.arrow").write_bytes(SEEN)
    commit = take_snapshot(whole, tmp_path / "snapshot")
    assert commit.version == sum(read_commit(one).version for one in index_folders(whole))
    assert (tmp_path / "snapshot" / "sync" / "x.arrow").read_bytes() == SEEN
    with_log = LiveReference(right.images.values())
    written(whole, right, random.Random(2))
    assert verify_index(tmp_path / "snapshot") == []
    opened = Opened(whole)
    with pytest.raises(InputError, match="shard-000 is being written by process"):
        restore_snapshot(tmp_path / "snapshot", whole)
    opened.close()
    aside = restore_snapshot(tmp_path / "snapshot", whole)
    assert aside is not None
    assert_same(open_index(aside), right.searcher())
    write(whole)
    assert_same(open_index(whole), with_log.searcher())


def test_copies_and_aliases_of_a_shard(whole: Path, tmp_path: Path) -> None:
    """A copied shard is an index of its own; one that is reached by any path is a shard."""
    merge_indexes([whole], None, 2)
    shard = whole / "shard-000"
    [first, *_] = open_index(shard).ids()
    take_snapshot(shard, tmp_path / "own")
    write(tmp_path / "own", Delete(first))
    assert len(open_index(tmp_path / "own")) == len(open_index(shard)) - 1
    (alias := tmp_path / "alias").symlink_to(shard)
    (other := tmp_path / "other").symlink_to(whole)
    shard.rename(tmp_path / "elsewhere")
    shard.symlink_to(tmp_path / "elsewhere")
    for path in (shard, other / "shard-000", whole / "shard-001" / ".." / "shard-000"):
        with pytest.raises(InputError, match="is a shard, and takes no writes alone"):
            delete_images(path, [first])
    shard.unlink()
    (tmp_path / "elsewhere").rename(shard)
    with pytest.raises(InputError, match=json.dumps(str(whole))[1:-1]):
        delete_images(alias, [first])
