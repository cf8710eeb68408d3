"""A soak of some seconds, and what it says of one that fails."""

import asyncio
import json
from collections import Counter
from pathlib import Path

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from eval.bench.soak import measure
from eval.bench.soak.disturbances import Rebuilds
from eval.bench.soak.editions import Editions
from eval.bench.soak.judge import Judge
from eval.bench.soak.measure import soak
from eval.bench.soak.memory import Sample
from eval.bench.soak.pauses import Over
from eval.bench.soak.plan import SoakPlan
from eval.bench.soak.results import Soaked
from eval.bench.soak.tally import WINDOWS, Tally
from eval.bench.soak.written import LiveJudge
from eval.commands.bench.soak import soak as soak_command
from sparta.errors import InputError
from tests.eval.bench.soak.needs import needs_proc

TEXTS = ["red", "blue things", "dark green", "a yellow % car", "red blue"]


@needs_proc
def test_a_short_soak_finds_nothing_wrong(drawings: Path) -> None:
    plan = SoakPlan(
        0.2, 4, 2, 40, pause=0.01, killed_every=4, rebuilt_every=7, hanging_up=1, sampled_every=1
    )
    steps: list[tuple[str, int, int]] = []
    found = soak(drawings, TEXTS, plan, lambda *step: steps.append(step))
    record = json.loads(json.dumps(found.record()))
    assert found.failed == 0, record
    assert record["overall"]["answers"] > 20
    assert found.tally.killed and found.tally.hung_up and found.tally.scraped
    first, second = record["versions"]
    assert (first["edition"], second["edition"]) == (0, 1) and first["answers"] > 0
    assert steps[0] == ("prepare", 0, 2) and steps[-1] == ("soak", 12, 12)
    assert found.samples[0].oldest_mb > 10


@needs_proc
def test_a_short_soak_with_writers_finds_nothing_wrong(drawings: Path) -> None:
    # Half a minute: on a busy machine the first write takes most of it.
    plan = SoakPlan(
        0.5, 2, 2, 40, pause=0.05, killed_every=5, hanging_up=0, sampled_every=1, writers=2
    )
    found = soak(drawings, TEXTS, plan)
    record = json.loads(json.dumps(found.record()))
    assert found.failed == 0, record
    assert record["written_images"] > 3
    assert isinstance(found.judge, LiveJudge)
    assert found.judge.written_hits > 3


def test_editions_differ_and_have_answers(drawings: Path) -> None:
    from eval.bench.query_latency.collections.impact_source import read_source
    from eval.bench.query_latency.collections.queries import tokenise
    from sparta.tokenizer import WordPieceTokenizer

    queries = tokenise(TEXTS, WordPieceTokenizer.from_folder(drawings), 3)
    editions = Editions.of(read_source(drawings), queries, 30, 5)
    first, second = editions.right
    assert set(first) == set(second) == set(editions.texts) and first != second
    for answers in editions.right:
        assert all(len(hits) == 5 for hits in answers.values())


def test_a_failed_rebuild_counts(tmp_path: Path) -> None:
    plan = SoakPlan(1, 1, 2, 3, rebuilt_every=0.01)
    tally = Tally(plan.seconds)
    rebuilds = Rebuilds(tmp_path / "absent", tmp_path / "index", plan, Judge(Editions([], [])))

    async def run() -> None:
        over = Over()
        rebuilding = asyncio.create_task(rebuilds.repeat(tally, over))
        await asyncio.sleep(0.05)  # the first one begins before, and takes longer
        over.set()
        await rebuilding

    asyncio.run(run())
    assert tally.failures == {"a rebuild ended with exit code 1": 1}


def failing() -> Soaked:
    tally = Tally(100.0)
    tally.times[0].extend([1.0, 2.0, 3.0])
    tally.attempts = Counter({"200": 3, "503": 2})
    tally.failures = Counter({"no answer": 4})
    judge = Judge(Editions([], []))
    judge.wrong_count = 1
    samples = [Sample(float(at), 900 + at / 36, 300.0) for at in range(100)]
    return Soaked(
        SoakPlan(100 / 60, 32, 2, 5), tally, judge, samples, ["ValueError: a", "ValueError: a"]
    )


def test_the_table_shows_what_failed() -> None:
    found = failing()
    assert found.failed == 7
    console = Console(width=100)
    with console.capture() as shown:
        console.print(found.table())
    text = shown.get()
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert "0.0 3 2.0 2.98 3.0 900.1" in lines
    assert "wrong answers 1, of another version 0" in lines
    assert "failures 4, unserved rebuilds 0" in lines
    assert "all processes: +100.0 MB/h (100.0 to 100.0)" in lines
    assert "oldest worker, private: +0.0 MB/h (0.0 to 0.0)" in lines
    record = found.record()
    assert len(record["windows"]) == WINDOWS
    assert record["samples"][3] == [3.0, 900 + 3 / 36, 300.0]


@pytest.mark.parametrize(("failed", "raises"), [(True, True), (False, False)])
def test_the_command_fails_with_the_server(
    failed: bool, raises: bool, drawings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = failing()
    if not failed:
        found = Soaked(found.plan, Tally(1.0), Judge(Editions([], [])), [], [])
    monkeypatch.setattr(measure, "soak", lambda *_: found)
    (tmp_path / "queries.txt").write_text("red\nblue\n")
    app = typer.Typer()
    app.command()(soak_command)
    arguments = [str(drawings), "--queries", str(tmp_path / "queries.txt"), "--json"]
    arguments += ["--figure", str(tmp_path / "soak.png")]
    if raises:
        with pytest.raises(InputError, match="the server failed 7 times"):
            CliRunner().invoke(app, arguments, catch_exceptions=False)
    else:
        done = CliRunner().invoke(app, arguments, catch_exceptions=False)
        assert json.loads(done.stdout)["overall"]["answers"] == 0
    assert (tmp_path / "soak.png").stat().st_size > 1000


def test_a_figure_that_could_not_be_written(drawings: Path, tmp_path: Path) -> None:
    (tmp_path / "queries.txt").write_text("red\nblue\n")
    app = typer.Typer()
    app.command()(soak_command)
    arguments = [str(drawings), "--queries", str(tmp_path / "queries.txt"), "--figure", "soak.jpg"]
    with pytest.raises(InputError, match=r"--figure soak\.jpg must be a \.png"):
        CliRunner().invoke(app, arguments, catch_exceptions=False)


def test_without_proc(drawings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "exists", lambda _: False)
    with pytest.raises(InputError, match="run it on Linux"):
        soak(drawings, TEXTS, SoakPlan(1, 1, 2, 3))


def test_tracebacks_are_named_by_their_errors() -> None:
    one = f"{measure.TRACEBACK}\n  File a\n    b\nKeyError: 'c'\nmore\n"
    assert measure.read_tracebacks(f"x\n{one}{one}{measure.TRACEBACK}\n  File") == [
        "KeyError: 'c'",
        "KeyError: 'c'",
        "cut off",
    ]
