"""No test fails for want of a program; `make test` runs all its parts and adds them up."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import parts
from tests.documents import ROOT
from tests.needs import OWN_PATH
from tests.parts import Result, read_report, summary

PROGRAMS = {"Chromium", "Firefox", "Node.js", "bash", "redis-server", "systemd-analyze", "wrk"}
UNIT = "tests/docker/test_references.py::test_systemd_understands_it"


def seen_by_a_child() -> str:
    command = [sys.executable, "-c", "import shutil; print(shutil.which('sh'))"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_a_test_that_declares_nothing_sees_no_program_of_the_machine() -> None:
    assert os.environ["PATH"] == OWN_PATH and seen_by_a_child() == "None"


@pytest.mark.needs("sh")
def test_a_declared_program_is_seen() -> None:
    assert shutil.which("sh") == seen_by_a_child() != "None"


def run_tests(folder: Path, *arguments: str, **variables: str) -> Result:
    """Run some tests where nothing is but Python: no program, an empty home, no CI."""
    bare = {"HOME": str(folder), "PATH": OWN_PATH, "OMP_NUM_THREADS": "1"}
    report = folder / "report.xml"
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    command += [f"--junit-xml={report}", f"--basetemp={folder / 'temporary'}"]
    done = subprocess.run(command, cwd=ROOT, env=bare | variables, capture_output=True, text=True)
    result = Result("bare", done.returncode)
    assert report.exists(), done.stdout + done.stderr
    read_report(report, result)
    return result


@pytest.mark.timeout(600)  # half a minute, on a machine that does nothing else
def test_without_programs_no_test_fails_and_all_that_need_one_are_skipped(tmp_path: Path) -> None:
    """Every file is collected there."""
    found = run_tests(tmp_path, "-m", "needs", BARE_MACHINE="1")
    assert (found.status, found.failed, found.passed) == (0, [], 0)
    assert {f"needs {name}" for name in PROGRAMS} <= found.skipped.keys()
    assert "needs wrk → apt-get install wrk" in summary([found])


def test_in_continuous_integration_they_fail(tmp_path: Path) -> None:
    found = run_tests(tmp_path, UNIT, CI="true")
    assert (found.status, len(found.failed), found.skipped.total()) == (1, 1, 0)


# ---- the parts of `make test` --------------------------------------------------------------------

MIXED = """
import pytest
def test_right(): pass
def test_wrong(): assert False
@pytest.mark.xfail
def test_expected(): assert False
@pytest.mark.parametrize("one", [1, 2])
def test_wanting(one): pytest.skip("needs wrk")
"""
WHOLE = "import pytest\npytest.skip('needs redis-server', allow_module_level=True)"


def test_a_part_that_fails_stops_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for name, text in {"mixed": MIXED, "whole": WHOLE, "last": "def test_it(): pass"}.items():
        (tmp_path / f"test_{name}.py").write_text(text)
    files = {name: str(tmp_path / f"test_{name}.py") for name in ("mixed", "whole", "last")}
    monkeypatch.setattr(parts, "REPORTS", tmp_path / "reports")
    monkeypatch.setattr(parts, "LINT", {"ruff": [sys.executable, "-c", "raise SystemExit(3)"]})
    wanted = {"rooms": [files["mixed"]], "training": [files["whole"], files["last"]]}
    monkeypatch.setattr(parts, "TESTS", wanted)
    assert parts.main(["--processes", "1"]) == 1
    printed = capfd.readouterr().out
    assert "1 failed, 1 passed, 2 skipped, 1 xfailed" in printed  # pytest's own line
    end = printed.partition("summary of all parts")[2]
    rows = [line.split()[:-1] for line in end.splitlines()[2:5]]  # without seconds
    assert rows == [
        ["ruff", "failed:", "3"],
        ["rooms", "failed:", "1", "2", "1", "2"],
        ["training", "passed", "1", "0", "1"],
    ]
    assert "test_mixed::test_wrong" in end
    assert "skipped    2: needs wrk → apt-get install wrk" in end
    assert "skipped    1: needs redis-server → apt-get install redis-server" in end
    assert end.splitlines()[-1] == "3 passed, 1 failed, 3 skipped: failed in ruff, rooms"
    assert parts.main(["training"]) == 0


def test_an_interrupted_run_is_summed_up_as_well(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(name: str, *_: object) -> Result:
        if name == "mypy":
            raise KeyboardInterrupt
        return Result(name)

    monkeypatch.setattr(parts, "run", run)
    assert parts.main([]) == 1
    assert capsys.readouterr().out.endswith(
        "0 passed, 0 failed, 0 skipped: failed in interrupted\n"
    )
