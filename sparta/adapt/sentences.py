"""Sentences that term vectors are fitted on: a user's own, or generated ones."""

from __future__ import annotations

import json
import re
from bisect import bisect
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparta.captions.read import is_captions, read_captions
from sparta.captions.record import tidy
from sparta.errors import InputError
from sparta.readers.base import read_lines, unreadable

LEXICON = Path(__file__).parent / "lexicon.txt"


class Sentences(NamedTuple):
    """S distinct sentences and how much each counts."""

    texts: list[str]
    weights: NDArray[np.float32]  # [S], 1 by default


# ---- a user's sentences --------------------------------------------------------------------------

_WEIGHTED = re.compile(r"(.+):(\d+(?:\.\d*)?|\.\d+)")
_COUNTED = re.compile(r"(.*)\t\s*(\d+(?:\.\d*)?)\s*")
_COUNT_HEADER = re.compile(r"\w+\t(?:count|n|hits|weight|frequency)", re.IGNORECASE)
SLOW_QUERY = "slow_query"  # event of a search in the server's log


def read_sentences(paths: Sequence[str | Path]) -> Sentences:
    """Read the sentences of files, each once.

    A file is one of: text, a sentence a line; captions in any format of `read_captions`, which
    may be a folder; a query log, of lines "query, tab, count", or of the server's slow queries.
    A sentence's weight is the sum over its occurrences of the file's weight, times the count
    where there is one. Blank lines are left out.

    Args:
        paths: each with a weight behind it if the file counts more or less, "captions.jsonl:0.5".
            A path that exists with the colon is read as it is.

    Raises:
        InputError: if a file is unreadable, malformed or without a sentence; the text names file
            and line.
    """
    found: dict[str, float] = {}
    for given in paths:
        path, weight = Path(given), 1.0
        if not path.exists() and (parts := _WEIGHTED.fullmatch(str(given))):
            path, weight = Path(parts[1]), float(parts[2])
            if not weight:
                raise InputError(
                    f"{given}: a weight of 0 leaves out all sentences: leave out the file"
                )
        own = 0
        for text, count in _sentences(path):
            if text := tidy(text):
                found[text] = found.get(text, 0.0) + weight * count
                own += 1
        if not own:
            raise InputError(f"{path} has no sentence: give a file with one a line, or captions")
    return Sentences(list(found), np.fromiter(found.values(), np.float32, len(found)))


def _sentences(path: Path) -> Iterator[tuple[str, float]]:
    """The sentences of a file, and how often each counts."""
    try:
        captions = is_captions(path)
    except OSError as error:
        raise unreadable(path, error) from error
    if captions and (path.is_dir() or path.suffix == ".json" or not _is_log(path)):
        texts = (text for photo in read_captions(path) for text in photo.captions)
        yield from ((text, 1.0) for text in texts)
        return
    lines = read_lines(path)
    if captions:
        yield from ((text, 1.0) for text in _logged(path, lines))
        return
    first = 1 + bool(lines and _COUNT_HEADER.fullmatch(lines[0].strip()))
    counted = "\t" in "".join(lines[first - 1 : first]).strip()
    for number, line in enumerate(lines[first - 1 :], first):
        if not counted or not line.strip():
            yield line, 1.0
        elif (parts := _COUNTED.fullmatch(line)) and float(parts[2]) > 0:
            yield parts[1], float(parts[2])
        else:
            raise InputError(
                f"{path}, line {number}: expected a sentence, a tab and a count above 0, as on the "
                f"first line; found {line[:60]!r}"
            )


def _is_log(path: Path) -> bool:
    lines = read_lines(path)
    return bool(lines) and '"event":' in lines[0]


def _logged(path: Path, lines: Sequence[str]) -> Iterator[str]:
    """The queries of slow searches, among other events of the server's log."""
    for number, line in enumerate(lines, 1):
        try:
            event = json.loads(line) if line.strip() else {}
            if event.get("event") == SLOW_QUERY:
                yield str(event["parameters"].get("q", ""))
        except (ValueError, KeyError, AttributeError, RecursionError) as error:
            raise InputError(f"{path}, line {number}: not a line of the server's log") from error


# ---- generated sentences -------------------------------------------------------------------------

ZIPF = 0.7  # exponent of the frequency of a list's n-th word
FIRST = 2.0  # added to n
ADJECTIVES = 0.3, 0.05  # shares of nouns with one and with two
PROMPTS, PROMPT_WEIGHT = 0.15, 0.3  # share of all sentences, and the weight of each
CAPITAL = 0.6  # share of sentences
ENDS = (".",) * 4 + (" .",) * 2 + ("",) * 4

_HEADER = re.compile(r"== (\w+) (\d+)")
_RULE = re.compile(r"(\w+)(\+?)(?: <([\w ]+)>)?( =|:) (.*)")
_SLOT = re.compile(r"\{(\w+)(\+?):?(\w*)\}")
_VERB = re.compile(r"=?([\w-]+)")


class Slot(NamedTuple):
    """A name within a phrase."""

    name: str
    plural: bool
    form: str  # of the verb that stands for it: "ing", "s" or "go"; "" for no verb


class Choice:
    """Phrases to draw from."""

    def __init__(self, options: Sequence[Sequence[str | Slot | Choice]], weights: Iterable[float]):
        self.options, self._sums = options, list(accumulate(weights))

    def draw(self, random: Random) -> Sequence[str | Slot | Choice]:
        """One of the phrases."""
        return self.options[bisect(self._sums, random.random() * self._sums[-1])]


class Rule(NamedTuple):
    """What a name stands for."""

    choice: Choice
    adjectives: Sequence[str]  # names of rules; only nouns have some
    noun: bool  # whether it is a list of words
    plural: bool  # whether they are plural as they stand


def _parse(text: str) -> Choice:
    """Phrases between bars, with numbers and a star before those that are drawn more often."""
    depth, start, parts = 0, 0, []
    for at, char in enumerate(text):
        depth += (char in "[{") - (char in "]}")
        if char == "|" and not depth:
            parts.append(text[start:at])
            start = at + 1
    found = [re.fullmatch(r"\s*(?:(\d+)\*)?(.*)", part) for part in [*parts, text[start:]]]
    return Choice(
        [_phrase(one[2]) for one in found if one], [float(one[1] or 1) for one in found if one]
    )


def _phrase(text: str) -> list[str | Slot | Choice]:
    parts: list[str | Slot | Choice] = []
    depth = start = 0
    for at, char in enumerate(text):
        if char in "[{":
            if not depth:
                parts.append(text[start:at])
                start = at
            depth += 1
        elif char in "]}":
            depth -= 1
            if not depth:
                inner = text[start : at + 1]
                slot = _SLOT.fullmatch(inner)
                parts.append(Slot(slot[1], bool(slot[2]), slot[3]) if slot else _parse(inner[1:-1]))
                start = at + 1
    return [part for part in [*parts, text[start:]] if part]


class Grammar:
    """The lexicon's rules; a scene's own are named "scene.name"."""

    def __init__(self, path: Path = LEXICON) -> None:
        self.rules: dict[str, Rule] = {}
        self.scenes: dict[str, int] = {}
        self.words: dict[str, list[str]] = {}
        scene = ""
        for line in path.read_text(encoding="utf-8").splitlines():
            if header := _HEADER.fullmatch(line):
                scene, self.scenes[header[1]] = f"{header[1]}.", int(header[2])
            elif line and line[0] != "#":
                found = _RULE.fullmatch(line)
                if found is None:
                    raise ValueError(line)
                name, many, adjectives, kind, body = found.groups()
                if kind == ":":
                    choice = _parse(body)
                else:
                    words = [word.replace("_", " ") for word in body.split()]
                    self.words[name] = words
                    frequencies = [(n + FIRST) ** -ZIPF for n in range(len(words))]
                    choice = Choice([[word] for word in words], frequencies)
                self.rules[scene + name] = Rule(
                    choice, (adjectives or "").split(), kind != ":", bool(many)
                )
        self.male = set(self.words["man"])
        self.female = set(self.words["woman"])
        people = ("man", "woman", "kid", "one", "some", "worker")
        self.people = {word for name in people for word in self.words[name]}
        self.people |= {plural(word) for word in self.people}


class Writer:
    """Writes sentences about scenes."""

    def __init__(self, grammar: Grammar, seed: int) -> None:
        self.grammar, self.random = grammar, Random(seed)
        names = list(grammar.scenes)
        self._scenes = Choice([[name] for name in names], grammar.scenes.values())
        self.scene, self.many, self.their, self.there = "", False, "its", -1

    def sentence(self, rule: str = "say") -> str:
        """A sentence of a scene drawn at random."""
        self.scene, self.there = f"{self._scenes.draw(self.random)[0]}.", -1
        out: list[str] = []
        self._expand(self.grammar.rules[rule].choice, out, "")
        return spelled(" ".join(out))

    def _expand(self, choice: Choice, out: list[str], inside: str) -> None:
        for part in choice.draw(self.random):
            if isinstance(part, str):
                out.append(part)
            elif isinstance(part, Choice):
                self._expand(part, out, inside)
            else:
                self._slot(part, out, inside)

    def _slot(self, slot: Slot, out: list[str], inside: str) -> None:
        name, rules = slot.name, self.grammar.rules
        if name == "is":
            out.append("are" if self.many else "is")
        elif name == "his":
            out.append(self.their)
        elif name in ("they", "them", "has"):
            forms = PRONOUNS[self.their]
            out.append(forms[name == "them"] if name != "has" else "have" if self.many else "has")
        elif name == "there":
            self.there = len(out)
            out.append("is")
        else:
            own = self.scene + name
            rule = rules[own if own in rules and own != inside else name]
            start = len(out)
            for adjective in self._adjectives(rule):
                self._expand(rules[adjective].choice, out, "")
            here = len(out)
            self._expand(rule.choice, out, own)
            if slot.plural and rule.noun and not rule.plural:
                out[-1] = plural(out[-1])
            if slot.form:
                out[here:] = inflected(" ".join(out[here:]), slot.form, self.many).split(" ")
            if name in ("who", "both", "soul", "souls"):
                self._subject(" ".join(out[start:]))
                if self.there >= 0 and self.many:
                    out[self.there] = "are"
                self.there = -1

    def _adjectives(self, rule: Rule) -> list[str]:
        if not rule.adjectives:
            return []
        chance, (one, two) = self.random.random(), ADJECTIVES
        return [self.random.choice(rule.adjectives) for _ in range((chance < one) + (chance < two))]

    def _subject(self, text: str) -> None:
        """Note number and gender of what follows."""
        self.many = is_plural(text)
        words = text.split()
        for word in words:
            if word in self.grammar.people:
                sex = "his" if word in self.grammar.male else "her"
                if word not in self.grammar.male and word not in self.grammar.female:
                    sex = self.random.choice(("his", "her", "their"))
                self.their = "their" if self.many else sex
                return
        self.their = "their" if self.many else "its"


_AND = re.compile(r" and (?:an?|the|one|another|two) ")
_PART_OF = re.compile(
    r"(?:an?|the|one|another) (?!group|couple|bunch|herd|flock|row|pack)[\w ]+ of "
)


def is_plural(text: str) -> bool:
    """Whether a subject takes a plural verb."""
    text = re.split(" with | in ", text)[0]
    last = text.split()[-1]
    several = last in IRREGULAR or (last.endswith("s") and not last.endswith(("ss", "us", "is")))
    return bool(_AND.search(text)) or (several and not _PART_OF.match(text))


def generated_sentences(count: int = 25_000, seed: int = 0) -> Sentences:
    """Sentences in the manner of photo captions, and short ones of single words."""
    writer = Writer(grammar(), seed)
    prompts = int(count * PROMPTS)
    found: dict[str, float] = {}
    while len(found) < count - prompts:
        text = writer.sentence()
        if writer.random.random() < CAPITAL:
            text = text[:1].upper() + text[1:]
        found[text + writer.random.choice(ENDS)] = 1.0
    words = sorted({word for words in writer.grammar.words.values() for word in words})
    writer.random.shuffle(words)
    at = 0
    while len(found) < count:
        writer.grammar.rules["word"] = Rule(
            Choice([[words[at % len(words)]]], [1.0]), (), True, False
        )
        found.setdefault(writer.sentence("prompt"), PROMPT_WEIGHT)
        at += 1
    return Sentences(list(found), np.fromiter(found.values(), np.float32))


@cache
def grammar() -> Grammar:
    """The package's own."""
    return Grammar()


# ---- forms of words ------------------------------------------------------------------------------

PLURALS = {
    **{"man": "men", "woman": "women", "child": "children", "person": "people", "foot": "feet"},
    **{"tooth": "teeth", "goose": "geese", "mouse": "mice", "ox": "oxen", "leaf": "leaves"},
    **{"loaf": "loaves", "knife": "knives", "wolf": "wolves", "shelf": "shelves"},
    **{"calf": "calves", "scarf": "scarves", "half": "halves", "bus": "buses", "someone": "people"},
    **{"potato": "potatoes", "tomato": "tomatoes", "mango": "mangoes", "volcano": "volcanoes"},
}
IRREGULAR = {*PLURALS.values(), "sheep", "deer", "fishermen", "policemen", "firemen"}
SAME = {"sheep", "deer", "fish", "bison", "moose", "aircraft", "cattle", "salmon", "squid", "trout"}
DOUBLED = {
    *("run", "sit", "swim", "jog", "cut", "get", "put", "hit", "dig", "chop", "hug", "pet", "shop"),
    *("stop", "skip", "slip", "flip", "grab", "drop", "drag", "spin", "win", "bat", "wrap", "step"),
    *(
        "clap",
        "nap",
        "tag",
        "rub",
        "mop",
        "knit",
        "chat",
        "zip",
        "tip",
        "pat",
        "trot",
        "hop",
        "spar",
    ),
    *("beg", "plan", "snap", "wag", "dip", "trim", "bow", "stir", "set", "tug", "shred", "flap"),
} - {"bow"}
PRONOUNS = {"his": ("he", "him"), "her": ("she", "her"), "its": ("it", "it")}
PRONOUNS["their"] = ("they", "them")
VERBS = {"lie": ("lying", "lies"), "tie": ("tying", "ties"), "have": ("having", "has")}


@cache
def plural(noun: str) -> str:
    """The plural of a noun, whose last word or the one before "of" changes."""
    head, of, rest = noun.partition(" of ")
    first, blank, last = head.rpartition(" ")
    if last in SAME or (last.endswith("s") and not last.endswith(("ss", "us"))):
        return noun
    if last in PLURALS:
        last = PLURALS[last]
    elif last.endswith("man") and last != "human":
        last = last[:-2] + "en"
    elif last.endswith(("s", "sh", "ch", "x", "z")):
        last += "es"
    elif last.endswith("y") and last[-2:-1] not in "aeiou":
        last = last[:-1] + "ies"
    else:
        last += "s"
    return first + blank + last + of + rest


@cache
def verb_form(verb: str, form: str) -> str:
    """A verb's "ing" form, or its third person singular."""
    if verb in VERBS:
        return VERBS[verb][form == "s"]
    if form == "s":
        if verb.endswith(("s", "sh", "ch", "x", "z", "o")):
            return verb + "es"
        return verb[:-1] + "ies" if verb.endswith("y") and verb[-2] not in "aeiou" else verb + "s"
    if verb in DOUBLED:
        return verb + verb[-1] + "ing"
    return verb[:-1] + "ing" if verb.endswith("e") and verb[-2] not in "eoy" else verb + "ing"


def inflected(phrase: str, form: str, many: bool) -> str:
    """A phrase whose first word is a verb, in a form that fits its subject.

    A participle, marked by "=", stays as it is, behind "is" or "are" for the form "s".
    """
    verb, blank, rest = phrase.partition(" ")
    if verb.startswith("="):
        be = {"s": "are " if many else "is ", "go": "be "}.get(form, "")
        return be + verb[1:] + blank + rest
    if form == "go" or (form == "s" and many):
        return phrase
    return verb_form(verb, form) + blank + rest


ALONE = re.compile(
    r"\b(?:an?|another|one) ((?:[\w-]+ )?(?:jeans|pants|shorts|scissors|clothes|drums|bubbles|\w*glasses))\b"
)


def spelled(text: str) -> str:
    """A sentence with single blanks, and "an" before a vowel."""
    text = re.sub(r"\s+", " ", text).strip()
    text = text.replace(" ,", ",").replace(" 's", "'s")
    text = re.sub(r"\ban (?=[^aeiou])", "a ", text)
    return re.sub(r"\ba (?=(?!uni|use|one|euro)[aeiou])", "an ", text)
