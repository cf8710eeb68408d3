"""Every patch fits the kernel as it is, compiles, and gives exact answers."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from eval.bench.query_latency.collections.queries import TermQuery
from eval.bench.query_latency.ground_truth import WrongAnswer
from eval.bench.trials.compiled import compiled, package_flags
from eval.bench.trials.measure import shipped_kernel
from eval.bench.trials.timing import Side, compare
from eval.bench.trials.trial import PATCHES, Trial, all_trials, pick_trials
from indexer.columns.builder import build_columns
from indexer.columns.index import ColumnIndex
from sparta.errors import InputError
from tests.eval.bench.query_latency.tiny import queries, rows, source
from tests.eval.bench.trials.needs import QUICK, needs_compiler

PATCHED = [trial for trial in all_trials() if trial.patch]
IMAGES = 20_000  # more superblocks than a batch, and than lead


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> ColumnIndex:
    given = source(IMAGES)
    given.impacts[:, 5:] *= given.impacts[:, 5:] > 200  # most terms are rare: lists
    folder = tmp_path_factory.mktemp("trials") / "columns"
    build_columns(folder, [rows(given)], len(given.vocabulary), given.bits)
    return ColumnIndex.open(folder)


@needs_compiler
@pytest.mark.parametrize("trial", PATCHED, ids=lambda trial: trial.name)
def test_a_trial_is_exact(trial: Trial, index: ColumnIndex, tmp_path: Path) -> None:
    kernel = compiled(trial, tmp_path, QUICK)
    for k in (1, 10, 1000):
        compare(trial.name, Side(shipped_kernel(), index), Side(kernel, index), asked(), k)
    assert trial.about.endswith(".") and not trial.about.startswith("---")


def asked() -> list[TermQuery]:
    return queries(source(), 40)


@needs_compiler
def test_a_module_is_compiled_once(tmp_path: Path) -> None:
    (unchanged,) = pick_trials("unchanged")
    compiled(unchanged, tmp_path, QUICK)
    (made,) = tmp_path.iterdir()
    before = made.stat().st_mtime_ns
    compiled(unchanged, tmp_path, QUICK)
    assert [path.stat().st_mtime_ns for path in tmp_path.iterdir()] == [before]
    assert package_flags()[0] == "-O3"


def changed(folder: Path, old: str, new: str) -> Trial:
    """A trial of which a line that is added, or that must be there, is another one."""
    patch = folder / "changed.patch"
    text = (PATCHES / "leaders-8.patch").read_text(encoding="utf-8")
    assert old in text
    patch.write_text(text.replace(old, new), encoding="utf-8")
    return Trial("changed", "", patch)


@pytest.mark.skipif(not shutil.which("git"), reason="git is not installed")
def test_a_patch_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    other = changed(tmp_path, "-enum { LEADERS = 32", "-enum { LEADERS = 31")
    with pytest.raises(InputError, match=r"changed\.patch does not fit the kernel: .*native\.c"):
        compiled(other, tmp_path, QUICK)


def test_an_answer_that_differs_ends_the_run(index: ColumnIndex) -> None:
    class Inexact:
        def best_documents(self, *arguments: object) -> int:
            return 0

    right, wrong = Side(shipped_kernel(), index), Side(Inexact(), index)
    with pytest.raises(WrongAnswer, match="odd is not exact"):
        compare("odd", right, wrong, asked(), 10)


def test_trials_are_picked_by_name() -> None:
    assert [trial.name for trial in pick_trials("batch-8, levels-16,batch-8")] == [
        "batch-8",
        "levels-16",
    ]
    assert pick_trials("all") == all_trials()
    with pytest.raises(InputError, match=r"--trials takes all or unchanged, .*, not 'odd'"):
        pick_trials("odd")
