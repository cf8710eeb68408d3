from training.scenes.facts import (
    Doing,
    Located,
    Mention,
    Related,
    SceneObject,
    SceneRecord,
    Setting,
    holds,
)


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
