"""Captions are true, varied, within their vocabulary, and tell enough to find the scene; so are
composed queries."""

import json
import re
import statistics
from collections import Counter
from itertools import product
from pathlib import Path

import pytest

from tests.scenes import captions as words
from tests.scenes.captions import (
    CATEGORIES,
    RELATIONS,
    Caption,
    Doing,
    Fact,
    Located,
    Mention,
    Related,
    SceneObject,
    SceneRecord,
    Setting,
    compose_queries,
    holds,
)
from tests.scenes.corpus import write_queries, write_scenes
from tests.scenes.draw import Scene, render_scene

"""Words that the grammar adds between slots."""


@pytest.fixture(scope="module")
def scenes() -> list[Scene]:
    return [render_scene(9, index) for index in range(250)]


def _described(record: SceneRecord, who: Mention) -> list[SceneObject]:
    """Slow, obvious reading of a mention."""
    found = []
    for o in record.objects:
        is_kind = o.label == who.noun or o.label in CATEGORIES.get(who.noun, ())
        if is_kind and who.colour in (None, o.colour) and who.size in (None, o.size):
            found.append(o)
    return found


def _mentions(fact: Fact) -> list[Mention]:
    match fact:
        case Mention():
            return [fact]
        case Doing(who=who) | Located(who=who):
            return [who]
        case Related(who=who, whom=whom):
            return [who, whom]
    return []


def test_every_scene_has_five_different_captions(scenes: list[Scene]) -> None:
    for scene in scenes:
        assert len(set(scene.texts)) == 5


def test_every_number_in_a_caption_counts_what_it_describes(scenes: list[Scene]) -> None:
    for scene in scenes:
        for fact in (fact for caption in scene.captions for fact in caption.facts):
            for who in _mentions(fact):
                assert len(_described(scene.record, who)) == who.count >= 1


def _obvious(a: SceneObject, relation: str, b: SceneObject) -> bool:
    """A weaker but independent reading of each relation."""
    (ax, ay), (bx, by) = a.centre, b.centre
    touching = not (
        a.box[2] <= b.box[0] or b.box[2] <= a.box[0] or a.box[3] <= b.box[1] or b.box[3] <= a.box[1]
    )
    return {
        "left of": ax < bx,
        "right of": ax > bx,
        "above": ay < by,
        "below": ay > by,
        "next to": abs(a.box[3] - b.box[3]) < 0.15 and abs(ax - bx) < 1,
        "in front of": touching and a.depth > b.depth,
        "behind": touching and a.depth < b.depth,
        "on": a.support == b.depth and a.box[3] < b.box[3],
    }[relation]


def test_every_stated_relation_position_action_and_setting_is_true(scenes: list[Scene]) -> None:
    seen: Counter[str] = Counter()
    for scene in scenes:
        record = scene.record
        for fact in (fact for caption in scene.captions for fact in caption.facts):
            assert holds(record, fact)
            match fact:
                case Related(who, relation, whom):
                    seen[relation] += 1
                    for a, b in product(_described(record, who), _described(record, whom)):
                        assert a is not b
                        assert _obvious(a, relation, b)
                case Doing(who, action):
                    assert {o.action for o in _described(record, who)} == {action}
                case Located(who, position):
                    seen[position] += 1
                    x = [o.centre[0] for o in _described(record, who)]
                    y = [o.centre[1] for o in _described(record, who)]
                    assert position != "left" or max(x) < 0.5
                    assert position != "right" or min(x) > 0.5
                    assert position != "top" or max(y) < 0.5
                    assert position != "bottom" or min(y) > 0.5
                case Setting(aspect, value):
                    seen[value] += 1
                    assert getattr(record, aspect) == value
    assert set(RELATIONS) <= seen.keys()
    assert {"left", "right", "top", "bottom", "middle", "night", "rain"} <= seen.keys()


def _without_setting(caption: Caption) -> str:
    """The caption's text less the words that state setting, position, relation or action."""
    text = f" {caption.text.lower().rstrip('.')} "
    phrases: list[str] = []
    tables = (words.PLACES, words.VIEWS, words.LIGHTS, words.WEATHERS)
    for fact in caption.facts:
        if isinstance(fact, Setting):
            phrases += [p for table in tables for p in table.get(fact.value, ())]
        elif isinstance(fact, Located):
            phrases += words.POSITIONS[fact.position]
        elif isinstance(fact, Related):
            phrases += words.RELATIONS[fact.relation]
        elif isinstance(fact, Doing):
            phrases += words.ACTIONS[fact.action]
    for phrase in sorted(phrases, key=len, reverse=True):
        text = re.sub(rf"\b{re.escape(phrase)}\b", " ", text)
    return text


def test_every_noun_colour_size_and_number_word_comes_from_a_fact(scenes: list[Scene]) -> None:
    nouns = {w: k for k, pairs in words.NOUNS.items() for pair in pairs for w in pair}
    colours = {w: k for k, texts in words.COLOURS.items() for w in texts}
    sizes = {w: k for k, texts in words.SIZES.items() for w in texts}
    numbers = {"two": 2, "three": 3, "four": 4, "2": 2, "3": 3, "4": 4, "pair": 2, "couple": 2}
    for caption in (caption for scene in scenes for caption in scene.captions):
        mentions = [who for fact in caption.facts for who in _mentions(fact)]
        found = re.findall(r"[a-z0-9]+", _without_setting(caption))
        for word in found:
            if word in nouns:
                assert nouns[word] in {who.noun for who in mentions}, caption
            if word in colours:
                assert colours[word] in {who.colour for who in mentions}, caption
            if word in sizes:
                assert sizes[word] in {who.size for who in mentions}, caption
            if word in numbers:
                assert numbers[word] in {who.count for who in mentions}, caption
        assert any(word in nouns for word in found)


def test_the_most_specific_caption_of_a_scene_finds_it(scenes: list[Scene]) -> None:
    matches = [
        min(
            sum(all(holds(other.record, fact) for fact in caption.facts) for other in scenes)
            for caption in scene.captions
        )
        for scene in scenes[:60]
    ]
    assert statistics.median(matches) == 1
    assert statistics.mean(matches) < 1.5


def test_false_facts_do_not_hold() -> None:
    dog = SceneObject("dog", "brown", "small", "stand", (0.1, 0.6, 0.3, 0.8), 0)
    cup = SceneObject("cup", "red", "large", None, (0.6, 0.6, 0.8, 0.8), 1)
    record = SceneRecord("beach", "night", "clear", (dog, cup))
    the_dog, the_cup = Mention("dog", None, None, 1), Mention("cup", None, None, 1)
    assert holds(record, Related(the_dog, "left of", the_cup))
    assert not holds(record, Related(the_cup, "left of", the_dog))
    assert not holds(record, Related(the_dog, "next to", the_cup))
    assert not holds(record, Related(the_dog, "in front of", the_cup))
    assert not holds(record, Mention("dog", "red", None, 1))
    assert not holds(record, Mention("dog", None, None, 2))
    assert not holds(record, Doing(the_dog, "swim"))
    assert not holds(record, Located(the_dog, "right"))
    assert not holds(record, Setting("light", "day"))


# ---- queries ------------------------------------------------------------------------------------


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
