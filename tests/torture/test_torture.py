"""A short form of `make torture`, and wrong answers that its judges must find."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import pytest

from indexer.answer import Timings
from server.client.answers import Hit, SearchAnswer
from tests.indexer.random_postings import random_postings
from tests.indexer.vocabulary import small_tokenizer
from tests.needs import EVERY, linux
from tests.torture import __main__ as torture
from tests.torture import requests, soak
from tests.torture.build_kills import kill_builds
from tests.torture.copies import copy_indexes
from tests.torture.damages import damage_files
from tests.torture.live_kills import kill_writers
from tests.torture.push_kills import kill_pushes
from tests.torture.requests import check_answer, send_requests
from tests.torture.soak_judge import PREFIX, Judge


def test_the_build_after_a_killed_one_succeeds(tmp_path: Path) -> None:
    found = kill_builds(2, 7, tmp_path, lambda _: None)
    assert found["wrong"] == []
    assert found["next_build"] == {"succeeded": 2}
    assert found["next_index"] == {"right": 2}


def test_a_killed_writer_loses_nothing_that_it_acknowledged(tmp_path: Path) -> None:
    found = kill_writers(4, 7, tmp_path, lambda _: None)
    assert found["wrong"] == []
    assert found["recovered"] == {"all that was acknowledged": 4}
    assert found["acknowledged"] > 0


@linux
@pytest.mark.parametrize("writes", [True, False] if EVERY else [True])
def test_a_server_whose_processes_die_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writes: bool
) -> None:
    monkeypatch.setattr(soak, "KILLED_EVERY", 4.0)
    monkeypatch.setattr(soak, "CHANGED_EVERY", 6.0)
    found = soak.soak(0.2, 7, tmp_path, lambda _: None, writes)
    assert found["wrong"] == []
    assert found["happened"]["kills"] > 0
    assert found["happened"]["images written" if writes else "reloads"] > 0


def test_killed_pushes_to_milvus_continue(tmp_path: Path) -> None:
    found = kill_pushes(2, 7, tmp_path, lambda _: None)
    assert found["wrong"] == []
    assert found["push"] == {"following, killed": 1, "once, killed": 1}
    assert found["continued"] == {"all images once": 2}


def test_copies_that_take_one_anothers_place_are_found(tmp_path: Path) -> None:
    found = copy_indexes(80, 7, tmp_path, lambda _: None)
    assert found["wrong"] == []
    assert found["taken"].keys() >= {"put", "restore", "alias", "move", "overwrite"}


def test_damaged_files_are_detected_or_harmless(tmp_path: Path) -> None:
    found = damage_files(8, 7, tmp_path, lambda _: None)
    assert found["wrong"] == []
    assert sum(found["outcome"].values()) == 8


def test_hostile_requests_are_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = send_requests(150, 1, tmp_path / "in time", lambda _: None)
    assert found["wrong"] == []
    assert {"200", "400", "404", "405", "413", "422", "431"} <= found["answers"].keys()
    monkeypatch.setattr(requests, "LIVEZ_BOUND", -1.0)
    [slow] = send_requests(2, 1, tmp_path / "late", lambda _: None)["wrong"]
    assert slow.startswith("/livez took")


def test_results_are_written_and_decide_the_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "torture.json"
    for wrong in ([], [{"killed_at": "change 7"}]):
        found = {"next_build": {"succeeded": 3}, "wrong": wrong}
        monkeypatch.setattr(torture, "SUITES", {"kills": (lambda *_, f=found: f, 3, "builds")})
        assert torture.main(["--kills", "3", "--out", str(out)]) == bool(wrong)
        assert json.loads(out.read_text())["kills"]["wrong"] == wrong
        assert "next_build: succeeded" in capsys.readouterr().out


# ---- judges --------------------------------------------------------------------------------------

PROBLEM = b"HTTP/1.1 %d x\r\nContent-Type: application/problem+json\r\n%s\r\n%s"


@pytest.mark.parametrize(
    ("answer", "wrong"),
    [
        (b"", None),
        (b"HTTP/1.1 200 OK\r\n\r\n{}", None),
        (PROBLEM % (503, b"Retry-After: 1\r\n", b'{"status": 503}'), None),
        (PROBLEM % (503, b"", b'{"status": 503}'), "status 503"),
        (b"HTTP/1.1 404 x\r\nContent-Type: text/plain\r\n\r\nno", "status 404 with text/plain"),
        (PROBLEM % (404, b"", b'{"status": 400}'), "a problem of another status"),
        (PROBLEM % (404, b"", b"[]"), "cannot be read"),
    ],
)
def test_wrong_answers_to_hostile_requests(answer: bytes, wrong: str | None) -> None:
    assert (wrong or "None") in str(check_answer(answer))


QUERY, OWN = "dog the", PREFIX + "0/0"
DOG = small_tokenizer().vocabulary.index("dog")
IMAGES = random_postings(small_tokenizer(), 20)
Hits = list[tuple[str, float]]


def judged(judge: Judge, hits: Hits, version: str = "built.3") -> list[str]:
    """What a judge finds wrong with an answer."""
    found = [Hit(rank=1, image_id=image_id, score=score, metadata={}) for image_id, score in hits]
    now = perf_counter()
    answer = SearchAnswer(hits=found, timings=Timings(0, 0, 0), index_version=version)
    judge.check(QUERY, answer, now, now)
    return judge.described()


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        (lambda hits: hits, None),
        (lambda hits: hits[::-1], "not in order"),
        (lambda hits: hits[:-1], "is missing"),
        (lambda hits: hits[:2] + hits[3:], "are not"),
        (lambda hits: [(hits[0][0], hits[0][1] + 1), *hits[1:]], "are not"),
        (lambda hits: [*hits[:4], (OWN, hits[4][1] + 0.5)], "never sent"),
    ],
)
def test_wrong_answers_about_the_rest(change: Callable[[Hits], Hits], wrong: str | None) -> None:
    judge = Judge([QUERY], 5)
    best = judge.serves(IMAGES, "built")[QUERY]
    found = judged(judge, change(list(best)))
    assert found == [] if wrong is None else wrong in "".join(found)
    assert "never served" in judged(judge, list(best), "another.3")[-1]


def test_wrong_answers_about_images_that_are_written() -> None:
    judge = Judge([QUERY], 5)
    best = list(judge.serves(IMAGES, "built")[QUERY])
    first, second = ((OWN, float(impact)) for impact in (2000, 3000))
    judge.written.sent(OWN, {DOG: 2000})
    assert judged(judge, best) == judged(judge, [first, *best[:4]]) == []  # under way
    judge.written.found(OWN)
    assert "is missing" in judged(judge, best)[-1]
    judge.written.sent(OWN, {DOG: 3000})
    judge.written.found(OWN)
    assert "has 2000.0 of [3000.0]" in judged(judge, [first, *best[:4]])[-1]
    judge.written.sent(OWN, None)
    assert judge.wrong_count == 2 == len(judged(judge, [second, *best[:4]]))  # not yet deleted
    judge.written.found(OWN)
    assert "has 3000.0 of [0.0]" in judged(judge, [second, *best[:4]])[-1]
    judge.check_images("at the end", [(OWN, {DOG: 3000})], math.inf, math.inf)
    assert judge.described()[-1].startswith("at the end")
