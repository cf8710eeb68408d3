"""Composed queries: true of exactly the scenes listed, different, the same on every machine."""

import json
from collections import Counter
from pathlib import Path

from training.scenes.corpus import write_scenes
from training.scenes.facts import SceneObject, SceneRecord
from training.scenes.queries import compose_queries, write_queries
from training.scenes.render import render_scene


def scene(*objects: tuple[str, str]) -> SceneRecord:
    items = [SceneObject(kind, c, "medium", None, (0, 0, 1, 1), 0) for kind, c in objects]
    return SceneRecord("beach", "day", "clear", tuple(items))


SCENES = {
    "one": scene(("dog", "black")),
    "two": scene(("dog", "black"), ("dog", "white")),
    "three": scene(("dog", "white"), ("dog", "white"), ("dog", "white"), ("car", "black")),
    "car": scene(("car", "black"), ("moon", "white")),
}
ANSWERS = {
    "black dog": {"one", "two"},
    "white dog": {"two", "three"},
    "black car": {"three", "car"},
    "white moon": {"car"},
    "two dogs": {"two"},
    "three dogs": {"three"},
    "car and dog": {"three"},
    "car and moon": {"car"},
}
SYNONYMS = {"puppy": "dog", "puppies": "dogs", "hound": "dog", "hounds": "dogs"}
SYNONYMS |= {"automobile": "car", "crescent": "moon"}


def plain(query: str) -> str:
    """A query without articles and synonyms, two objects in alphabetical order."""
    objects = []
    for phrase in query.split(" and "):
        thing, _, colour = phrase.partition(" which is ")
        words = [SYNONYMS.get(w, w) for w in (*colour.split(), *thing.split())]
        objects.append(" ".join(w for w in words if w not in ("a", "an", "the", "one")))
    return " and ".join(sorted(objects))


def test_answers_are_all_scenes_a_query_describes() -> None:
    seen = set()
    for seed in range(40):
        for query in compose_queries(SCENES, 4, seed):
            name = plain(query.query)
            assert set(query.images) == ANSWERS[name], query
            seen.add(name)
    assert seen == ANSWERS.keys()


def test_kinds_take_turns_and_no_query_comes_twice() -> None:
    records = {f"{i}": render_scene(4, i).record for i in range(60)}
    queries = compose_queries(records, 24, 1)
    assert Counter(query.kind for query in queries) == {
        "colour and object": 8,
        "count and object": 8,
        "two objects": 8,
    }
    assert len({query.query for query in queries}) == 24
    assert all(query.images for query in queries)
    assert queries == compose_queries(records, 24, 1)
    assert queries != compose_queries(records, 24, 2)


def test_too_few_scenes_give_fewer_queries() -> None:
    assert [q.kind for q in compose_queries({"one": SCENES["one"]}, 9, 0)] == ["colour and object"]


def test_file_beside_a_corpus(tmp_path: Path) -> None:
    write_scenes(tmp_path / "out", 12, seed=2)
    assert write_queries(tmp_path / "out", 6, 2) == 6
    lines = (tmp_path / "out" / "queries.jsonl").read_text("utf-8").splitlines()
    records = {f"{i:06d}.jpg": render_scene(2, i).record for i in range(12)}
    written = [(q["query"], q["kind"], tuple(q["images"])) for q in map(json.loads, lines)]
    assert written == [(q.query, q.kind, q.images) for q in compose_queries(records, 6, 2)]
