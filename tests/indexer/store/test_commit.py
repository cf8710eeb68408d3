"""Commits, what the user gave, and where images come from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from indexer.store.commit import Commit, SegmentEntry, SegmentList, log_path, read_commit
from indexer.store.given import FILE, Given, read_given, with_given, write_given
from indexer.store.images import DIGITS, built_origin, new_origin, origin_of
from indexer.store.log import ChangeLog
from sparta.errors import InputError
from sparta.features.store import FeatureStore


def test_a_commit_comes_back_from_its_file(tmp_path: Path) -> None:
    segments = SegmentList(
        2, {"000001": SegmentEntry("ab", 9), "000004": SegmentEntry("c", 3, "d", "e")}
    )
    commit = Commit(17, 3, 123_456, "a", "b", 9, 7, 11, 40, segments)
    commit.save(tmp_path)
    assert read_commit(tmp_path) == commit
    assert log_path(Path("index"), 3) == Path("index/log/000003")
    replace(commit, version=18).save(tmp_path)
    assert read_commit(tmp_path).version == 18
    assert [path.name for path in tmp_path.iterdir()] == ["commit.json"]


@pytest.mark.parametrize(
    ("edit", "problem"),
    [
        (lambda text: text.replace("17", "18"), "commit.json is damaged: restore a snapshot"),
        (lambda text: text[:-9], "commit.json is damaged: restore a snapshot"),
        (lambda text: "[]", "commit.json is damaged: restore a snapshot"),
        (lambda text: "", "commit.json is damaged: restore a snapshot"),
    ],
)
def test_damage_of_a_commit_is_noticed(
    tmp_path: Path, edit: Callable[[str], str], problem: str
) -> None:
    Commit(17, 3).save(tmp_path)
    path = tmp_path / "commit.json"
    path.write_text(edit(path.read_text()))
    with pytest.raises(InputError, match=problem):
        read_commit(tmp_path)
    path.unlink()
    with pytest.raises(InputError, match=r"commit.json is missing: restore a snapshot, or build"):
        read_commit(tmp_path)


@pytest.mark.parametrize(
    ("later", "continues"),
    [
        (Commit(7, 1, 90, "a", "", 0), True),
        (Commit(5, 1, 70, "a", "", 0), True),  # the same
        (Commit(4, 1, 60, "a", "", 0), False),  # an older state was restored
        (Commit(8, 1, 95, "b", "a", 5), True),
        (Commit(8, 1, 95, "b", "a", 6), True),
        (Commit(8, 1, 95, "b", "a", 4), False),  # restored, and written to again
        (Commit(9, 1, 99, "c", "b", 8), False),  # unknown: what is between is not there
        (Commit(9, 1, 99), False),
    ],
)
def test_a_commit_of_a_copy_continues_only_what_the_copy_has(
    later: Commit, continues: bool
) -> None:
    assert later.continues(Commit(5, 1, 70, "a", "", 0)) == continues
    assert later.continues(Commit())  # the build itself


def test_what_is_given_later_adds_to_the_same_content(tmp_path: Path) -> None:
    assert read_given(tmp_path) == {}
    first = Given(10, {"a": 1, "b": 2}, {"a": 1}, sent="photo")
    write_given(tmp_path, {"x": [first], "y": [Given(None, deleted=True)]})
    write_given(tmp_path, {"x": [Given(20, {"c": 3}), Given(10, {"b": None})]})
    assert read_given(tmp_path) == {
        "x": [
            Given(20, {"c": 3}),
            Given(10, {"a": 1, "b": None}, {"a": 1}, sent="photo"),
        ],
        "y": [Given(None, deleted=True)],
    }
    write_given(tmp_path, {"x": [Given(10, sent="")], "y": [Given(None, {"d": 4})]})
    found = read_given(tmp_path)
    assert found["x"][-1].sent == "" and found["x"][-1].fields["a"] == 1
    assert found["y"] == [Given(None, {"d": 4})]


def test_given_values_replace_those_of_the_file() -> None:
    assert with_given({"a": 1, "b": 2}, {"b": None, "c": 3}, {"c": 4}) == {"a": 1, "c": 4}


def test_an_unfinished_record_was_never_acknowledged(tmp_path: Path) -> None:
    write_given(tmp_path, {"x": [Given(1, {"a": 1})]})
    whole = (tmp_path / FILE).read_bytes()
    write_given(tmp_path, {"y": [Given(1, {"a": 1})]})
    both = (tmp_path / FILE).read_bytes()
    (tmp_path / FILE).write_bytes(both[:-1])
    assert list(read_given(tmp_path)) == ["x"]
    (tmp_path / FILE).write_bytes(b"?" + both[1:])
    with pytest.raises(InputError, match=rf"{FILE} is damaged"):
        read_given(tmp_path)
    (tmp_path / FILE).write_bytes(whole)
    log = ChangeLog(tmp_path / FILE)
    end = log.append([Given(1, {"b": 1}).record("x")])
    log.append([Given(1, {"b": 2}).record("x")])
    log.take_back(end)
    log.sync()
    log.close()
    assert read_given(tmp_path)["x"] == [Given(1, {"a": 1, "b": 1})]


def test_features_and_nothing_else_decide_an_origin(store: FeatureStore) -> None:
    assert len({origin_of(image) for image in store}) == len(store)
    image = store[0]
    assert len(origin_of(image)) == len(new_origin()) == DIGITS
    assert origin_of(image) == origin_of(replace(image, image_id="other"))
    others = [
        replace(image, width=image.width + 1),
        replace(image, features=image.features + 1),
        replace(image, boxes=image.boxes[::-1]),
        replace(image, labels=("x",) * len(image.labels)),
        replace(image, attributes=("x",) * len(image.attributes)),
    ]
    assert len({origin_of(one) for one in (image, *others)}) == 6
    assert new_origin() != new_origin()
    assert built_origin("a") != built_origin("b")
