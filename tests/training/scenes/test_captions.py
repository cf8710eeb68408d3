"""The captions: true, varied, within their vocabulary, telling enough to find the scene."""

import re
import statistics
from collections import Counter
from itertools import product

import pytest

from tests.training.scenes.lexicon_words import lexicon_words
from training.scenes import lexicon
from training.scenes.captions import Caption
from training.scenes.facts import (
    CATEGORIES,
    RELATIONS,
    Doing,
    Fact,
    Located,
    Mention,
    Related,
    SceneObject,
    SceneRecord,
    Setting,
    holds,
)
from training.scenes.render import Scene, render_scene


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
    tables = (lexicon.PLACES, lexicon.VIEWS, lexicon.LIGHTS, lexicon.WEATHERS)
    for fact in caption.facts:
        if isinstance(fact, Setting):
            phrases += [p for table in tables for p in table.get(fact.value, ())]
        elif isinstance(fact, Located):
            phrases += lexicon.POSITIONS[fact.position]
        elif isinstance(fact, Related):
            phrases += lexicon.RELATIONS[fact.relation]
        elif isinstance(fact, Doing):
            phrases += lexicon.ACTIONS[fact.action]
    for phrase in sorted(phrases, key=len, reverse=True):
        text = re.sub(rf"\b{re.escape(phrase)}\b", " ", text)
    return text


def test_every_noun_colour_size_and_number_word_comes_from_a_fact(scenes: list[Scene]) -> None:
    nouns = {w: k for k, pairs in lexicon.NOUNS.items() for pair in pairs for w in pair}
    colours = {w: k for k, words in lexicon.COLOURS.items() for w in words}
    sizes = {w: k for k, words in lexicon.SIZES.items() for w in words}
    numbers = {"two": 2, "three": 3, "four": 4, "2": 2, "3": 3, "4": 4, "pair": 2, "couple": 2}
    for caption in (caption for scene in scenes for caption in scene.captions):
        mentions = [who for fact in caption.facts for who in _mentions(fact)]
        words = re.findall(r"[a-z0-9]+", _without_setting(caption))
        for word in words:
            if word in nouns:
                assert nouns[word] in {who.noun for who in mentions}, caption
            if word in colours:
                assert colours[word] in {who.colour for who in mentions}, caption
            if word in sizes:
                assert sizes[word] in {who.size for who in mentions}, caption
            if word in numbers:
                assert numbers[word] in {who.count for who in mentions}, caption
        assert any(word in nouns for word in words)


def test_relations_and_setting_words_come_from_facts(scenes: list[Scene]) -> None:
    markers = {
        "behind": "behind",
        "beside": "next to",
        "on top of": "on",
        "right of": "right of",
        "left of": "left of",
    }
    for caption in (caption for scene in scenes for caption in scene.captions):
        relations = {fact.relation for fact in caption.facts if isinstance(fact, Related)}
        for words, relation in markers.items():
            if re.search(rf"\b{words}\b(?! the picture)", caption.text.lower()):
                assert relation in relations, caption
        settings = {fact.value for fact in caption.facts if isinstance(fact, Setting)}
        for word, value in (("beach", "beach"), ("kitchen", "kitchen"), ("night", "night")):
            if word in caption.text.lower():
                assert value in settings, caption


def test_synonyms_vary(scenes: list[Scene]) -> None:
    text = " ".join(c.lower() for scene in [*scenes, *_more()] for c in scene.texts)
    for words in (
        ("dog", "puppy", "hound"),
        ("bicycle", "bike"),
        ("car", "automobile"),
        ("aeroplane", "airplane", "plane"),
        ("large", "big", "huge"),
        ("small", "little", "tiny"),
        ("grey", "gray"),
        ("on the beach", "by the sea", "at the seaside"),
        ("two", "a pair of", "a couple of", "2"),
    ):
        for word in words:
            assert re.search(rf"\b{word}\b", text), word


def _more() -> list[Scene]:
    return [render_scene(10, index) for index in range(200)]


def test_captions_are_short_and_long(scenes: list[Scene]) -> None:
    lengths = [len(c.split()) for scene in scenes for c in scene.texts]
    assert min(lengths) <= 3
    assert max(lengths) >= 18


def test_captions_use_only_words_of_the_lexicon(scenes: list[Scene]) -> None:
    words = lexicon_words()
    assert 250 <= len(words) <= 500
    used = {w for scene in scenes for c in scene.texts for w in re.findall(r"\w+", c.lower())}
    assert used <= words


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
