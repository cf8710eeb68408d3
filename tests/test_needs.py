"""No test fails for want of a program: one that declares no need sees none, others are skipped."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

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


def test_without_programs_no_test_fails_and_all_that_need_one_are_skipped(tmp_path: Path) -> None:
    """Every file is collected, and every test that declares a need is run."""
    found = run_tests(tmp_path, "-m", "needs")
    assert (found.status, found.failed) == (0, [])
    assert {f"needs {name}" for name in PROGRAMS} <= found.skipped.keys()
    assert "needs wrk → apt-get install wrk" in summary([found])


def test_in_continuous_integration_they_fail(tmp_path: Path) -> None:
    found = run_tests(tmp_path, UNIT, CI="true")
    assert (found.status, len(found.failed), found.skipped.total()) == (1, 1, 0)
