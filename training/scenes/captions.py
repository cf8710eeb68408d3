"""Five captions for a scene, each stating only facts that are true of it."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from training.scenes import lexicon
from training.scenes.facts import (
    CATEGORIES,
    POSITIONS,
    RELATIONS,
    Doing,
    Fact,
    Located,
    Mention,
    Related,
    SceneRecord,
    Setting,
    holds,
    matching,
    mentioned,
)
from training.scenes.phrases import noun_phrase

_SLOT = re.compile(r"\{(\w+)\}")
Slot = Callable[[], tuple[str, tuple[Fact, ...]]]
"""Gives the words for one slot of a pattern, and the facts they state."""


@dataclass(frozen=True)
class Caption:
    """A text and the facts it states."""

    text: str
    facts: tuple[Fact, ...]


class CaptionWriter:
    """Writes the captions of one scene, in different forms.

    Args:
        record: description of the scene.
        rng: source of random choices.
    """

    def __init__(self, record: SceneRecord, rng: random.Random) -> None:
        self.record = record
        self.rng = rng

    def write(self) -> list[Caption]:
        """Five captions with different texts, in random order."""
        forms = [self._listing, self._relating, self._single, self._setting]
        extra = [self._acting, self._placing, self._pairing, self._short, self._relating]
        forms.append(self.rng.choice(extra))
        if self.rng.random() < 0.4:
            forms[2] = self._short
        captions: list[Caption] = []
        for form in forms:
            captions.append(self._fresh(form, {c.text for c in captions}))
        self.rng.shuffle(captions)
        return captions

    def _fresh(self, form: Callable[[], Caption | None], taken: set[str]) -> Caption:
        for _ in range(8):
            caption = form()
            if caption is not None and caption.text not in taken:
                return caption
        while True:  # ends, as the setting has many wordings
            caption = self._setting()
            if caption.text not in taken:
                return caption

    def _mention(self, label: str | None = None, rich: float = 0.7) -> Mention:
        """Refer to some objects by noun and, with probability `rich`, by colour and by size."""
        rng, record = self.rng, self.record
        item = rng.choice([o for o in record.objects if label in (None, o.label)])
        noun = item.label
        wider = [name for name, kinds in CATEGORIES.items() if noun in kinds]
        if wider and label is None and rng.random() < 0.07:
            noun = wider[0]
        colour = item.colour if rng.random() < rich and noun not in CATEGORIES else None
        size = item.size if item.size != "medium" and rng.random() < rich else None
        return Mention(noun, colour, size, len(matching(record, noun, colour, size)))

    def _pair(self) -> tuple[Mention, Mention] | None:
        """Two mentions of different objects, or None."""
        a, b = self._mention(), self._mention()
        both = mentioned(self.record, a) + mentioned(self.record, b)
        disjoint = len({id(o) for o in both}) == len(both)
        return (a, b) if disjoint else None

    def _fill(
        self,
        patterns: tuple[str, ...],
        a: Mention,
        b: Mention | None = None,
        known: Related | None = None,
    ) -> Caption:
        """Choose a pattern whose slots can all be filled with facts of this scene, and fill it."""
        slots = self._slots(a, b, known)
        possible = [p for p in patterns if set(_SLOT.findall(p)) <= slots.keys()]
        pattern = self.rng.choice(possible)
        facts: dict[Fact, None] = {}

        def put(match: re.Match[str]) -> str:
            text, stated = slots[match[1]]()
            facts.update(dict.fromkeys(stated))
            return text

        text = _SLOT.sub(put, pattern)
        if self.rng.random() < 0.6:
            text = text[0].upper() + text[1:] + ("." if self.rng.random() < 0.8 else "")
        return Caption(text, tuple(facts))

    def _slots(self, a: Mention, b: Mention | None, known: Related | None) -> dict[str, Slot]:
        """The slots that can be filled, by name."""
        slots: dict[str, Slot] = {
            "place": partial(self._setting_words, lexicon.PLACES, "background"),
            "view": partial(self._setting_words, lexicon.VIEWS, "background"),
            "when": self._when,
            "list": self._list,
        }
        slots |= self._mention_slots("a", a)
        slots["bare"] = partial(self._phrase, a, False)
        if b is not None:
            slots |= self._mention_slots("b", b)
            slots["bare_b"] = partial(self._phrase, b, False)
        where = [Located(a, p) for p in POSITIONS if holds(self.record, Located(a, p))]
        if where:
            place = self.rng.choice(where)
            slots["where"] = partial(self._words, lexicon.POSITIONS[place.position], place)
        if known is not None:
            slots["rel"] = partial(self._words, lexicon.RELATIONS[known.relation], known)
        return slots

    def _mention_slots(self, name: str, who: Mention) -> dict[str, Slot]:
        """Slots of one mention: its noun phrase, its verb and, if it has one, its action."""
        verb = "are" if who.count > 1 else "is"
        slots: dict[str, Slot] = {
            name: partial(self._phrase, who),
            f"{name}_is": lambda: (verb, ()),
        }
        action = mentioned(self.record, who)[0].action
        if action and holds(self.record, Doing(who, action)):
            slots[f"{name}_does"] = partial(
                self._words, lexicon.ACTIONS[action], Doing(who, action)
            )
        return slots

    def _phrase(self, who: Mention, article: bool = True) -> tuple[str, tuple[Fact, ...]]:
        return noun_phrase(who, self.rng, article), (who,)

    def _words(self, synonyms: tuple[str, ...], fact: Fact) -> tuple[str, tuple[Fact, ...]]:
        return self.rng.choice(synonyms), (fact,)

    def _setting_words(
        self, words: dict[str, tuple[str, ...]], aspect: str
    ) -> tuple[str, tuple[Fact, ...]]:
        value = str(getattr(self.record, aspect))
        return self.rng.choice(words[value]), (Setting(aspect, value),)

    def _when(self) -> tuple[str, tuple[Fact, ...]]:
        if self.record.weather != "clear" and self.rng.random() < 0.6:
            return self._setting_words(lexicon.WEATHERS, "weather")
        return self._setting_words(lexicon.LIGHTS, "light")

    def _list(self) -> tuple[str, tuple[Fact, ...]]:
        """An enumeration of up to four kinds of object in the scene."""
        labels = list(dict.fromkeys(o.label for o in self.record.objects))
        self.rng.shuffle(labels)
        mentions = tuple(self._mention(label, rich=0.85) for label in labels[:4])
        phrases = [noun_phrase(who, self.rng) for who in mentions]
        text = phrases[0] if len(phrases) == 1 else f"{', '.join(phrases[:-1])} and {phrases[-1]}"
        return text, mentions

    def _single(self) -> Caption:
        return self._fill(lexicon.SINGLE, self._mention())

    def _setting(self) -> Caption:
        return self._fill(lexicon.SETTING, self._mention(rich=0.4))

    def _listing(self) -> Caption:
        return self._fill(lexicon.LISTING, self._mention())

    def _acting(self) -> Caption | None:
        who = self._mention()
        action = mentioned(self.record, who)[0].action
        if action is None or not holds(self.record, Doing(who, action)):
            return None
        return self._fill(lexicon.ACTING, who)

    def _placing(self) -> Caption | None:
        who = self._mention()
        if not any(holds(self.record, Located(who, p)) for p in POSITIONS):
            return None
        return self._fill(lexicon.PLACING, who)

    def _pairing(self) -> Caption | None:
        pair = self._pair()
        return pair and self._fill(lexicon.PAIRING, *pair)

    def _short(self) -> Caption | None:
        pair = self._pair() or (self._mention(rich=0.5), None)
        return self._fill(lexicon.SHORT, *pair)

    def _relating(self) -> Caption | None:
        pair = self._pair()
        if pair is None:
            return None
        facts = [Related(pair[0], r, pair[1]) for r in RELATIONS]
        true = [f for f in facts if holds(self.record, f)]
        return self._fill(lexicon.RELATING, *pair, self.rng.choice(true)) if true else None
