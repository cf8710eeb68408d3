"""Sentences for fitting term vectors: files of every kind, and the package's own."""

import json
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from sparta.adapt import sentences
from sparta.adapt.sentences import Sentences, generated_sentences, read_sentences
from sparta.errors import InputError


def weights(found: Sentences) -> dict[str, float]:
    assert found.weights.dtype == np.float32
    return dict(zip(found.texts, found.weights.tolist(), strict=True))


def write(path: Path, text: str) -> Path:
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    return path


def test_files_of_all_kinds_are_merged_by_weight(tmp_path: Path) -> None:
    text = write(tmp_path / "a.txt", "a dog\r\n\r\n  a cat \na dog\n")
    line = {"image": "1.jpg", "captions": ["a dog", "Zwei Hunde"]}
    captions = write(tmp_path / "captions.jsonl", json.dumps(line))
    log = write(tmp_path / "log.tsv", "query\tcount\na cat\t3\nred car\t0.5\n")
    found = weights(read_sentences([text, f"{captions}:0.5", f"{log}:2"]))
    assert found == {"a dog": 2.5, "a cat": 7.0, "Zwei Hunde": 0.5, "red car": 1.0}
    # A path that exists is not split at its colon.
    path = write(tmp_path / "a.txt:2", "a bird\n")
    assert weights(read_sentences([path, f"{path}:.25"])) == {"a bird": 1.25}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("tokens.txt", "1.jpg#0\ta dog\n1.jpg#1\ta cat\n"),
        ("table.csv", "image,caption\n1.jpg,a dog\n1.jpg,a cat\n"),
        ("objects.txt", '{"image": "1.jpg", "captions": ["a dog", "a cat"]}'),
    ],
)
def test_captions_of_other_formats(tmp_path: Path, name: str, text: str) -> None:
    assert weights(read_sentences([write(tmp_path / name, text)])) == {"a dog": 1.0, "a cat": 1.0}
    write(tmp_path / "train_caps.txt", "a dog\na cat\n")
    write(tmp_path / "train_ids.txt", "1.jpg\n1.jpg\n")
    assert weights(read_sentences([tmp_path])) == {"a dog": 1.0, "a cat": 1.0}


def test_queries_of_the_servers_log(tmp_path: Path) -> None:
    lines = [
        {"time": "t", "event": "request", "path": "/search"},
        {"time": "t", "event": "slow_query", "ms": 3.0, "parameters": {"q": "a dog", "k": "5"}},
        {"time": "t", "event": "slow_query", "ms": 4.0, "parameters": {"q": "a dog"}},
    ]
    path = write(tmp_path / "slow.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    assert weights(read_sentences([path])) == {"a dog": 2.0}


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("empty.txt", b"", "no sentence"),
        ("blank.txt", b" \n\xe2\x80\x8b\n", "no sentence"),
        ("latin.txt", b"a dog\ncaf\xe9\n", "line 2: not UTF-8"),
        ("log.tsv", b"a dog\t3\na cat\tmany\n", "line 2: expected a sentence, a tab and a count"),
        ("zero.tsv", b"a dog\t0\n", "line 1: .*above 0"),
        ("slow.log", b'{"event":"slow_query","parameters":{"q":"a"}}\n{"ev', "line 2: not a line"),
        ("captions.jsonl", b'{"image": "1.jpg"}\n', "line 1: captions"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path: Path, name: str, content: bytes, says: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=f"{name}.*{says}"):
        read_sentences([tmp_path / name])


def test_a_missing_file_and_weights_of_zero_and_without_end(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.txt: cannot be read"):
        read_sentences([tmp_path / "none.txt"])
    with pytest.raises(InputError, match="weight of 0"):
        read_sentences([f"{tmp_path}:0"])
    path = tmp_path / "log.txt"
    path.write_text("a dog\t600000000\na cat\t1\n")
    assert max(read_sentences([path]).weights) == 6e8
    with pytest.raises(InputError, match=r"log\.txt:2: 'a dog' has the weight 1\.2e\+09"):
        read_sentences([f"{path}:2"])


def test_generated_sentences_are_distinct_varied_and_depend_on_the_seed() -> None:
    texts, weights = generated_sentences(5000, seed=3)
    assert len(texts) == len(set(texts)) == len(weights) == 5000
    again = generated_sentences(5000, seed=3)
    assert texts == again.texts and (weights == again.weights).all()
    assert len(set(texts) & set(generated_sentences(5000, seed=4).texts)) < 1000
    whole = [text for text, weight in zip(texts, weights, strict=True) if weight == 1]
    shortest, longest = np.percentile([len(text.split()) for text in whole], [5, 95])
    assert shortest >= 4 and longest <= 22
    words = Counter(word for text in texts for word in re.findall(r"[a-z]+", text.lower()))
    assert len(words) > 2500
    # Nothing of the grammar's notation, and no wrong article.
    assert not re.search(r"[\[\]@|*=_#]|\ba [aio]|  ", " ".join(whole).replace("a one", ""))


def test_forms_of_words() -> None:
    lexicon = sentences.Lexicon(sentences.LEXICON)
    nouns = ["dog", "box", "berry", "toy", "fireman", "pair of scissors", "wolf", "sheep", "jeans"]
    found = ", ".join(sentences.plural(noun, lexicon) for noun in nouns)
    assert found == "dogs, boxes, berries, toys, firemen, pairs of scissors, wolves, sheep, jeans"
    for forms in ("ride riding rides", "run running runs", "lie lying lies", "ski skiing skis"):
        verb, *others = forms.split()
        assert [sentences.inflected(verb, form, lexicon) for form in ("ing", "s")] == others


def test_every_name_in_the_lexicon_stands_for_something() -> None:
    rules = sentences.Lexicon(sentences.LEXICON).rules
    known = rules.keys() | sentences.AGREEING | {"word"}
    for name, rule in rules.items():
        slots = {
            part.name for phrase in rule.options for part in phrase if not isinstance(part, str)
        }
        assert not slots - known and not {*rule.adjectives} - known, name
