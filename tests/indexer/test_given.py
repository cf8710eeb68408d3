"""What the user gave is in the index, in its copies and in a rebuild alike, in every order."""

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from indexer.build import build_index
from indexer.maintenance.copies import restore_snapshot, take_snapshot
from indexer.manifest import UPLOAD
from indexer.store.changes import Add, Delete, MetadataChange
from indexer.store.given import FILE, Given, add_given, read_given
from indexer.update.images import add_images, delete_images, update_metadata
from indexer.update.sync import Encoding, PhotoSync
from indexer.verify import verify_index
from sparta.features.store import FeatureStore
from tests.indexer.live_index import Opened, write
from tests.indexer.store.images import image
from tests.indexer.test_rebuild import build_photos, draw, fields_of
from tests.needs import EVERY

FIELDS = ("a", "b")
KINDS = ("put", "patch", "delete", "add", "rebuild", "restore")
Op = tuple[str, str, dict[str, Any]]
given_fields = st.dictionaries(st.sampled_from(FIELDS), st.sampled_from([1, 2, None]))
ids = st.sampled_from(["0/0.jpg", "0/1.jpg", "sent"])
ops = st.lists(
    st.tuples(
        st.sampled_from(["put", "patch", "delete", "add", "rebuild", "restore"]), ids, given_fields
    ),
    max_size=6,
)


class Lived:
    """An index, and what the user gave to the images that it should have."""

    def __init__(self, folder: Path, store: FeatureStore, model: Path, shards: int | None) -> None:
        self.index, self._build = folder / "index", (store, model, shards)
        self._folder, self._copies = folder, 0
        self.given: dict[str, dict[str, Any]] = {image_id: {} for image_id in store.ids}
        self.rebuild()

    def rebuild(self) -> None:
        store, model, shards = self._build
        build_index([store], [model], self.index, device="cpu", shards=shards)

    def restore(self) -> None:
        self._copies += 1
        copy = self._folder / f"copy-{self._copies}"
        take_snapshot(self.index, copy)
        restore_snapshot(copy, self.index)

    def apply(self, op: Op) -> None:
        kind, image_id, fields = op
        if kind == "put":
            own = {name: value for name, value in fields.items() if value is not None}
            new = image(image_id, {5: 100, 7: 100}, {UPLOAD: "", **own})
            write(self.index, Add(new, own, "terms"))
            self.given[image_id] = own
        elif kind == "patch" and image_id in self.given:
            update_metadata(self.index, {image_id: fields})
            merged = {**self.given[image_id], **fields}
            self.given[image_id] = {name: one for name, one in merged.items() if one is not None}
        elif kind == "delete" and image_id in self.given:
            delete_images(self.index, [image_id])
            del self.given[image_id]
        elif kind == "add":
            store, model, _ = self._build
            add_images(self.index, [store], [model], device="cpu")
            self.given = {one: {} for one in store.ids} | self.given
        elif kind in ("rebuild", "restore"):
            self.rebuild() if kind == "rebuild" or self._build[2] else self.restore()

    def check(self) -> None:
        found = {
            image_id: {name: one for name, one in values.items() if name in FIELDS}
            for image_id, values in fields_of(self.index).items()
        }
        assert found == self.given
        assert verify_index(self.index) == []


@pytest.mark.parametrize("shards", [None, 2])
@settings(max_examples=6 if EVERY else 1)
@example([("put", "sent", {"a": 1}), ("put", "sent", {})])
@example([("put", "sent", {"a": 1}), ("delete", "sent", {}), ("put", "sent", {"b": 2})])
@example([("patch", "0/0.jpg", {"a": 1}), ("delete", "0/0.jpg", {}), ("add", "", {})])
@example([("patch", "0/0.jpg", {"a": 1}), ("put", "0/0.jpg", {}), ("add", "", {})])
@given(ops)
def test_every_order_gives_what_was_given_last(
    store: FeatureStore, model_dir: Path, shards: int | None, done: list[Op]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        lived = Lived(Path(folder), store, model_dir, shards)
        for op in done:
            lived.apply(op)
            lived.check()
        lived.rebuild()
        lived.check()


def test_a_change_that_its_log_lacks_gave_nothing(
    store: FeatureStore, model_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer is killed between the record of what was given and the change log."""
    build = Lived(tmp_path, store, model_dir, None)
    update_metadata(build.index, {store.ids[0]: {"a": 1}})
    opened = Opened(build.index)
    change = Add(image(store.ids[0], {5: 100}, {UPLOAD: ""}), {}, "terms")
    log = opened.writer._shards[0]
    with monkeypatch.context() as patch:
        patch.setattr(log._log, "append", lambda _: exit("killed"))
        with pytest.raises(SystemExit):
            opened.writer.write([change])
    opened.kill()
    assert read_given(build.index)[store.ids[0]][-1].fields == {"a": 1}
    update_metadata(build.index, {store.ids[1]: {"b": 1}})  # the next writer
    build.rebuild()
    assert fields_of(build.index)[store.ids[0]]["a"] == 1


def test_a_batch_deletes_what_it_has_sent(
    store: FeatureStore, model_dir: Path, tmp_path: Path
) -> None:
    build = Lived(tmp_path, store, model_dir, None)
    new = Add(image("sent", {5: 100}, {UPLOAD: "", "a": 1}), {"a": 1}, "terms")
    write(build.index, new, Delete("sent"), replace(new, given={}), MetadataChange("sent", {}, {}))
    assert read_given(build.index)["sent"][-1].fields == {}


def test_a_former_state_of_a_file_does_not_bring_former_fields_back(tmp_path: Path) -> None:
    photos, index = tmp_path / "photos", tmp_path / "index"
    for name, colour in (("0.jpg", "blue"), ("1.jpg", "green")):
        draw(photos / name, colour, "sun")
    about = {"0.jpg": {"album": "Rome"}}
    build_photos(photos, index, metadata=about)
    whole = (photos / "0.jpg").read_bytes()

    def sync() -> None:
        PhotoSync(index, photos, Encoding(["sample"], device="cpu")).run(yes=True)

    draw(photos / "0.jpg", "blue", "sun", quality=80)  # shows the same
    sync()
    update_metadata(index, {"0.jpg": {"album": None}})
    build_photos(photos, index, metadata=about)
    assert "album" not in fields_of(index)["0.jpg"]
    (photos / "0.jpg").write_bytes(whole)
    sync()
    assert "album" not in fields_of(index)["0.jpg"]
    # A deleted photo that vanishes stays deleted when it comes back, by sync and by a rebuild.
    delete_images(index, ["1.jpg"])
    (photos / "1.jpg").rename(tmp_path / "1.jpg")
    sync()
    shutil.copy2(tmp_path / "1.jpg", photos / "1.jpg")
    sync()
    assert set(fields_of(index)) == {"0.jpg"}
    build_photos(photos, index, metadata=about)
    assert set(fields_of(index)) == {"0.jpg"} and (index / FILE).is_file()


def test_contents_of_unknown_size() -> None:
    record: dict[str, list[Given]] = {}
    for one in (Given(None, {"a": 1}), Given(100, {"a": None}), Given(100, {"b": 1})):
        add_given(record, "x", one)
    assert [(one.size, one.fields) for one in record["x"]] == [(100, {"a": None, "b": 1})]
    add_given(record, "x", Given(None, deleted=True))
    assert [one.fields for one in record["x"]] == [{}]
