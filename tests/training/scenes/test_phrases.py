import random
import re

from training.scenes.facts import Mention
from training.scenes.phrases import noun_phrase


def test_noun_phrases_agree_in_number_and_article() -> None:
    rng = random.Random(0)
    singles = {noun_phrase(Mention("elephant", None, None, 1), rng) for _ in range(50)}
    assert singles == {"an elephant", "one elephant"}
    for _ in range(50):
        assert noun_phrase(Mention("cactus", "green", None, 2), rng).endswith("green cacti")
        assert re.search(r"(dress|gown)$", noun_phrase(Mention("woman", "red", "large", 1), rng))
