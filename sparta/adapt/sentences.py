"""Sentences that term vectors are fitted on: a user's own, or generated ones."""

from __future__ import annotations

import json
import re
from bisect import bisect
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import accumulate, cycle
from pathlib import Path
from random import Random
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparta.captions.read import is_captions, read_captions
from sparta.captions.record import tidy
from sparta.errors import InputError
from sparta.readers.base import read_lines, unreadable


class Sentences(NamedTuple):
    """S distinct sentences and how much each counts."""

    texts: list[str]
    weights: NDArray[np.float32]  # [S], 1 by default


# ---- a user's sentences --------------------------------------------------------------------------

_WEIGHTED = re.compile(r"(.+):(\d+(?:\.\d*)?|\.\d+)")
_COUNTED = re.compile(r"(.*)\t\s*(\d+(?:\.\d*)?)\s*")
_COUNT_HEADER = re.compile(r"\w+\t(?:count|n|hits|weight|frequency)", re.IGNORECASE)
HEAVIEST = 1e9  # of a sentence's weights; the fit is inexact with larger ones
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
        InputError: if a file is unreadable, malformed or without a sentence, or a weight is above
            `HEAVIEST`; the text names file and line, or sentence.
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
                if found[text] > HEAVIEST:
                    raise InputError(
                        f"{given}: {text!r} has the weight {found[text]:g}, more than "
                        f"{HEAVIEST:g}: give the files or counts smaller ones"
                    )
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

LEXICON = Path(__file__).parent / "lexicon.txt"
ZIPF, FIRST = 0.7, 2.0  # the n-th word of a list has the frequency (n + FIRST) ** -ZIPF
ADJECTIVES = 0.3, 0.05  # shares of nouns with an adjective and with two
PROMPTS, PROMPT_WEIGHT = 0.15, 0.3  # share of the sentences, and the weight of each
CAPITAL, ENDS = 0.6, (*[""] * 4, *["."] * 4, " .", " .")  # share of sentences; how they end

_HEADER = re.compile(r"== (\w+) (\d+)")
_RULE = re.compile(r"(\w+)(\+?)(?: <([\w ]+)>)?( =|:) (.*)")
_INNER = re.compile(r"\[([^\[\]]*)\]")
_SLOT = re.compile(r"(@[#\w]+(?:\+|:\w+)?)")


class Slot(NamedTuple):
    """A name within a phrase."""

    name: str
    plural: bool
    form: str  # of the verb that stands for it: "ing", "s" or "go"; "" for no verb


class Rule(NamedTuple):
    """What a name stands for: words, or phrases of words and names."""

    options: Sequence[Sequence[str | Slot]]
    sums: Sequence[float]  # of the options' weights, up to each
    adjectives: Sequence[str] = ()  # names of rules; only nouns have some
    singular: bool = False  # whether it is a list of words that have a plural


def generated_sentences(count: int = 25_000, seed: int = 0) -> Sentences:
    """English sentences in the manner of photo captions, and short ones about single words.

    The short ones have a lower weight. The same count and seed give the same sentences.
    """
    lexicon, random = _lexicon(), Random(seed)
    writer = _Writer(lexicon, random)
    found: dict[str, float] = {}
    while len(found) < count - int(count * PROMPTS):
        text = writer.sentence("say")
        if random.random() < CAPITAL:
            text = text[:1].upper() + text[1:]
        found[text + random.choice(ENDS)] = 1.0
    words = sorted({word for name in lexicon.nouns for word in lexicon.words[name]})
    random.shuffle(words)
    for word in cycle(words):
        if len(found) >= count:
            break
        writer.word = Rule([[word]], [1.0], singular=True)
        found.setdefault(writer.sentence("prompt"), PROMPT_WEIGHT)
    return Sentences(list(found), np.fromiter(found.values(), np.float32, len(found)))


class Lexicon:
    """The rules of a lexicon file; a scene's own are named "scene.name"."""

    def __init__(self, path: Path) -> None:
        self.rules: dict[str, Rule] = {}
        self.scenes: dict[str, float] = {}
        self.words: dict[str, list[str]] = {}
        scene = ""
        for line in path.read_text(encoding="utf-8").splitlines():
            if header := _HEADER.fullmatch(line):
                scene, self.scenes[header[1]] = f"{header[1]}.", float(header[2])
            elif found := _RULE.fullmatch(line):
                name, many, adjectives, kind, body = found.groups()
                if kind == ":":
                    self.rules[scene + name] = self._phrases(body)
                else:
                    words = self.words[name] = [word.replace("_", " ") for word in body.split()]
                    sums = list(accumulate((n + FIRST) ** -ZIPF for n in range(len(words))))
                    options = [[word] for word in words]
                    self.rules[name] = Rule(options, sums, (adjectives or "").split(), not many)
        forms = [form.split("/") for form in self.words["forms"]]
        self.plurals = {form[0]: form[1] for form in forms if len(form) == 2}
        self.verbs = {form[0]: form[1:] for form in forms if len(form) == 3}
        described = {name for rule in self.rules.values() for name in rule.adjectives}
        no_nouns = described | OTHERS
        self.nouns = [
            name for name in self.words if self.rules[name].singular and name not in no_nouns
        ]
        self.doubled = set(self.words["doubled"])
        people = {word for name in PEOPLE for word in self.words[name]}
        self.people = people | {plural(word, self) for word in people}

    def _phrases(self, text: str) -> Rule:
        """Phrases between bars, with a number and a star before those that are drawn more often."""
        while inner := _INNER.search(text):
            name = f"#{len(self.rules)}"
            self.rules[name] = self._phrases(inner[1])
            text = text[: inner.start()] + f"@{name}" + text[inner.end() :]
        phrases, weights = [], []
        for option in text.split("|"):
            weight, _, phrase = option.rpartition("*")
            weights.append(float(weight or 1))
            parts = [part for part in _SLOT.split(phrase) if part]
            phrases.append([_slot(part) if part[0] == "@" else part for part in parts])
        return Rule(phrases, list(accumulate(weights)))


def _slot(text: str) -> Slot:
    name, _, form = text[1:].rstrip("+").partition(":")
    return Slot(name, text[-1] == "+", form)


@cache
def _lexicon() -> Lexicon:
    return Lexicon(LEXICON)


class _Writer:
    """Draws sentences, one at a time."""

    def __init__(self, lexicon: Lexicon, random: Random) -> None:
        self._lexicon, self._random = lexicon, random
        self._scenes, self._sums = list(lexicon.scenes), list(accumulate(lexicon.scenes.values()))
        self.word = Rule([], [])  # that {word} stands for
        # Of the sentence: its scene, whether its last subject is plural, that subject's "his",
        # and the place of an "is" before it.
        self._scene, self._many, self._his, self._there = "", False, "its", -1

    def sentence(self, rule: str) -> str:
        """A sentence about a scene drawn at random."""
        self._scene = self._scenes[bisect(self._sums, self._random.random() * self._sums[-1])] + "."
        self._there = -1
        out: list[str] = []
        self._expand(self._lexicon.rules[rule], rule, out)
        text = re.sub(r"\s+(?=[,'])", "", " ".join(" ".join(out).split()))
        text = re.sub(r"\ban (?=[^aeiou])", "a ", text)
        return re.sub(r"\ba (?=(?!uni|use|one|euro)[aeiou])", "an ", text)

    def _expand(self, rule: Rule, name: str, out: list[str]) -> None:
        chosen = bisect(rule.sums, self._random.random() * rule.sums[-1], hi=len(rule.sums) - 1)
        for part in rule.options[chosen]:
            if isinstance(part, str):
                out.append(part)
            elif part.name in AGREEING:
                self._agree(part.name, out)
            else:
                self._fill(part, name, out)

    def _agree(self, name: str, out: list[str]) -> None:
        """Append a word that agrees with the last subject, or "is" for the next one."""
        they = "they" if self._many else PRONOUNS[self._his][0]
        them = "them" if self._many else PRONOUNS[self._his][1]
        if name == "there":
            self._there = len(out)
        forms = {"his": self._his, "they": they, "them": them, "there": "is"}
        forms |= {"is": "are", "has": "have"} if self._many else {"is": "is", "has": "has"}
        out.append(forms[name])

    def _fill(self, slot: Slot, inside: str, out: list[str]) -> None:
        """Append what stands for a name; within a scene's rule, the name is the general one."""
        rules, own = self._lexicon.rules, self._scene + slot.name
        name = own if own in rules and own != inside else slot.name
        rule, start = self.word if name == "word" else rules[name], len(out)
        if rule.adjectives:
            drawn = self._random.random()
            for share in ADJECTIVES:
                if drawn < share:
                    adjective = self._random.choice(rule.adjectives)
                    self._expand(rules[adjective], adjective, out)
        here = len(out)
        self._expand(rule, name, out)
        if slot.plural and rule.singular:
            out[-1] = plural(out[-1], self._lexicon)
        if slot.form:
            out[here:] = [self._verb(" ".join(out[here:]), slot.form)]
        if slot.name in SUBJECTS:
            self._note(" ".join(out[start:]))
            if self._there >= 0 and self._many:
                out[self._there] = "are"
            self._there = -1

    def _note(self, subject: str) -> None:
        """Note the number and the possessive of a subject."""
        before = re.split(" with | in ", subject)[0]
        last = before.split()[-1]
        several = last in self._lexicon.plurals.values() or bool(re.search("(?<![sui])s$", last))
        self._many = bool(_AND.search(before)) or (several and not _PART_OF.match(before))
        self._his = "their" if self._many else "its"
        for word in subject.split():
            if word in self._lexicon.people:
                male, female = (word in self._lexicon.words[sex] for sex in ("man", "woman"))
                either = self._random.choice(("his", "her"))
                self._his = (
                    "their" if self._many else "his" if male else "her" if female else either
                )
                break

    def _verb(self, phrase: str, form: str) -> str:
        """A phrase whose first word is a verb, in a form that fits the last subject.

        A participle, which is marked by "=", stays as it is.
        """
        verb, blank, rest = phrase.partition(" ")
        if verb[0] == "=":
            be = {"s": "are " if self._many else "is ", "go": "be ", "ing": ""}[form]
            return be + verb[1:] + blank + rest
        if form == "go" or (form == "s" and self._many):
            return phrase
        return inflected(verb, form, self._lexicon) + blank + rest


# ---- forms of words ------------------------------------------------------------------------------

PEOPLE = ("man", "woman", "kid", "one", "some", "worker")  # lists
SUBJECTS = {"who", "both", "soul", "souls"}  # rules whose number and sex count
OTHERS = {"forms", "doubled", "doing", "handle", "adv", "digit", "mood", "looks"}  # no nouns
AGREEING = {"is", "has", "his", "they", "them", "there"}
PRONOUNS = {
    "his": ("he", "him"),
    "her": ("she", "her"),
    "its": ("it", "it"),
    "their": ("they", "them"),
}
_AND = re.compile(r" and (?:an?|the|one|another|two) ")
_GROUPS = "group|couple|bunch|herd|flock|row|pack|line|crowd"
_PART_OF = re.compile(rf"(?:an?|the|one|another) (?!{_GROUPS})[\w ]+ of ")


def plural(noun: str, lexicon: Lexicon) -> str:
    """The plural of a noun; its last word changes, or the one before "of"."""
    head, of, rest = noun.partition(" of ")
    first, blank, last = head.rpartition(" ")
    if last in lexicon.plurals:
        last = lexicon.plurals[last]
    elif re.search(r"(ss|us|sh|ch|x|z)$", last):
        last += "es"
    elif not last.endswith("s"):
        last = re.sub(r"(?<![aeiou])y$", "ie", re.sub("man$", "men", last))
        last += "s" * (not last.endswith("men"))
    return first + blank + last + of + rest


def inflected(verb: str, form: str, lexicon: Lexicon) -> str:
    """A verb's "ing" form, or its third person singular, "s"."""
    if verb in lexicon.verbs:
        return lexicon.verbs[verb][form == "s"]
    if form == "s":
        return (
            re.sub(r"(?<![aeiou])y$", "i", verb)
            + "es"[not re.search(r"(s|sh|ch|x|z|o|[^aeiou]y)$", verb) :]
        )
    if verb in lexicon.doubled:
        return verb + verb[-1] + "ing"
    return re.sub(r"(?<![eoy])e$", "", verb) + "ing"
